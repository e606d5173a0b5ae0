// Foreign text where people read it: on a page, on a terminal.
#pragma once
#include <string>
#include <string_view>

namespace wmtp::tracking {

// For element content and quoted attributes; control characters become a visible mark.
std::string escape_html(std::string_view text);
// For a terminal, one record a line: line breaks, tabs and control characters are spelled out.
std::string visible(std::string_view text);
// The text with U+FFFD in place of bytes that are no UTF-8.
std::string valid_utf8(std::string_view text);
// A title as the name of a place on a page, as viewers of Markdown make it of a heading.
std::string slug(std::string_view title);
std::string short_number(double value);  // 4 significant digits

}  // namespace wmtp::tracking
