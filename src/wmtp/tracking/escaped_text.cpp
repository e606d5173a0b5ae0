#include "wmtp/tracking/escaped_text.h"

#include <fmt/format.h>

#include "wmtp/core/printable.h"

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

std::string short_number(double value) {
  return fmt::format("{:.4g}", value);
}

}  // namespace wmtp::tracking
