#include "wmtp/tracking/escaped_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/printable.h"
#include "wmtp/core/utf8.h"

namespace wmtp::tracking {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      out += "\xEF\xBF\xBD";
    else
      out.push_back(c);
  }
  return out;
}

std::string visible(std::string_view text) {
  std::string out;
  for (const char c : escape_control(text))
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else
      out.push_back(c);
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = first_utf8_char(text).size;
    valid += size == 0 ? "\xEF\xBF\xBD" : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(1, size));
  }
  return valid;
}

std::string slug(std::string_view title) {
  std::string out;
  for (const char c : title)
    if (c >= 'A' && c <= 'Z')
      out.push_back(static_cast<char>(c - 'A' + 'a'));
    else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')
      out.push_back(c);
    else if (c == ' ')
      out.push_back('-');
  return out;
}

std::string short_number(double value) {
  return fmt::format("{:.4g}", value);
}

}  // namespace wmtp::tracking
