#include "wmtp/tracking/report/profile_html.h"

#include <fmt/format.h>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

std::string cells_html(const std::vector<std::string>& cells, const char* element) {
  std::string out = "<tr>";
  for (const std::string& cell : cells)
    out += fmt::format("<{0}>{1}</{0}>", element, escape_html(cell));
  return out + "</tr>\n";
}

std::string rows_table(const char* name, const ProfileCells& rows) {
  std::string out = "<div class=\"scroll\"><table class=\"numbers\"><thead>" +
                    cells_html(profile_header(name), "th") + "</thead><tbody>\n";
  for (const auto& row : rows) out += cells_html(row, "td");
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string profile_html(const ProfileSummary& summary) {
  return fmt::format("<p class=\"note\">{}</p>\n", escape_html(profile_title(summary))) +
         rows_table("phase", phase_cells(summary)) +
         rows_table("operator", operator_cells(summary));
}

}  // namespace wmtp::tracking
