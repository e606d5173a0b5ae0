// What all pages of the commands are made of: one self-contained HTML file each, without scripts
// and without the network, in the report's style sheet (tracking/report/style.h). Foreign text goes
// through page_text.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wmtp::cli::pages {

// For element content and quoted attributes: markup is escaped, control characters and marks that
// turn the direction of writing are spelled out.
std::string page_text(std::string_view text);

// The whole page. `body` is HTML, `style` what its own classes need besides the common sheets.
std::string whole_page(std::string_view title, const std::string& body,
                       const std::string& style = {});

// The helpers below take plain text, except what is called html.
std::string section(std::string_view title, const std::string& html);
std::string panel(std::string_view caption, const std::string& html);
std::string grid(const std::string& panels_html);
std::string list_html(const std::vector<std::string>& lines);
std::string details(std::string_view title, const std::string& html);
// Numbers stay in one line and scroll.
std::string table_html(const std::vector<std::string>& header,
                       const std::vector<std::vector<std::string>>& rows);

// One token's text. A line break stays, with a mark before it, so that one sees which token it is.
std::string token_text(std::string_view piece);

}  // namespace wmtp::cli::pages
