#include "wmtp/cli/pages/page.h"

#include <fmt/format.h>

#include "wmtp/cli/pages/page_style.h"
#include "wmtp/core/printable.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/style.h"

namespace wmtp::cli::pages {

std::string page_text(std::string_view text) {
  return tracking::escape_html(escape_control(text));
}

std::string whole_page(std::string_view title, const std::string& body, const std::string& style) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
      "style-src &#39;unsafe-inline&#39;\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<meta name=\"color-scheme\" content=\"light dark\"/><title>wmtp: {0}</title>"
      "<style>{1}{2}{3}</style></head>\n<body><h1>{0}</h1>\n{4}</body></html>\n",
      page_text(title), tracking::kPageStyle, kCommandPageStyle, style, body);
}

std::string section(std::string_view title, const std::string& html) {
  return html.empty() ? "" : fmt::format("<h2>{}</h2>\n{}\n", page_text(title), html);
}

std::string panel(std::string_view caption, const std::string& html) {
  return html.empty() ? ""
                      : fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n",
                                    page_text(caption), html);
}

std::string grid(const std::string& panels_html) {
  return panels_html.empty() ? "" : "<div class=\"grid\">" + panels_html + "</div>\n";
}

std::string list_html(const std::vector<std::string>& lines) {
  std::string out = "<ul class=\"facts\">";
  for (const std::string& line : lines) out += "<li>" + page_text(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string details(std::string_view title, const std::string& html) {
  return fmt::format("<details><summary>{}</summary>{}</details>\n", page_text(title), html);
}

std::string table_html(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"scroll\"><table class=\"numbers\"><thead><tr>";
  for (const std::string& cell : header) out += "<th>" + page_text(cell) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + page_text(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string token_text(std::string_view piece) {
  std::string marked;
  for (const char c : piece) {
    if (c == '\n') marked += "⏎";
    marked.push_back(c);
  }
  return page_text(marked);
}

}  // namespace wmtp::cli::pages
