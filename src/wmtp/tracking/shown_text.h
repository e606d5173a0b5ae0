// Texts inside the page.
#pragma once
#include <string>
#include <string_view>

namespace wmtp::tracking {

// For element content and quoted attributes; control characters become a visible mark.
std::string escape_html(std::string_view text);
std::string short_number(double value);  // 4 significant digits

}  // namespace wmtp::tracking
