#include "wmtp/tracking/report/html_parts.h"

#include <fmt/format.h>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking {
namespace {

// ` id="..."`, or nothing.
std::string id_of(std::string_view anchor) {
  return anchor.empty() ? "" : fmt::format(" id=\"{}\"", anchor);
}

}  // namespace

std::string panel_html(std::string_view caption, const std::string& drawing,
                       std::string_view anchor) {
  if (drawing.empty()) return "";
  return fmt::format("<figure{}><figcaption>{}</figcaption>{}</figure>\n", id_of(anchor),
                     escape_html(caption), drawing);
}

std::string section_html(std::string_view title, const std::string& panels,
                         std::string_view anchor) {
  if (panels.empty()) return "";
  return fmt::format("<h2{}>{}</h2>\n<div class=\"grid\">{}</div>\n", id_of(anchor),
                     escape_html(title), panels);
}

std::string table_html(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows, Cells cells) {
  std::string out = fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead><tr>",
                                cells == Cells::numbers ? "numbers" : "texts");
  for (const std::string& cell : header) out += "<th>" + escape_html(cell) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string pairs_html(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : pairs) rows.push_back({key, value});
  return table_html({"", ""}, rows, Cells::texts);
}

std::string list_html(const std::vector<std::string>& lines) {
  std::string out = "<ul>";
  for (const std::string& line : lines) out += "<li>" + escape_html(line) + "</li>";
  return out + "</ul>\n";
}

std::string details_html(std::string_view title, const std::string& body, bool open) {
  return fmt::format("<details{}><summary>{}</summary>{}</details>\n", open ? " open=\"open\"" : "",
                     escape_html(title), body);
}

}  // namespace wmtp::tracking
