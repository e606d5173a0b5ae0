#include "wmtp/config/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "wmtp/config/yaml/node.h"

namespace wmtp::config {
namespace {

bool is_plain_safe(const std::string& text) {
  constexpr std::string_view kFirst = "_./", kLater = "_./-+";
  if (text.empty()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool letter = c < 0x80 && std::isalnum(c);
    if (!letter && (i == 0 ? kFirst : kLater).find(text[i]) == std::string_view::npos) return false;
  }
  for (const char* word :
       {"yes", "no", "on", "off", "y", "n", "Yes", "No", "On", "Off", "True", "False", "..."})
    if (text == word) return false;
  try {
    return plain_scalar(text, {}).is(Node::Kind::text);
  } catch (const std::string&) {
    return false;  // .inf and the like
  }
}

std::string quoted(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

struct Style {
  const char *separator, *colon;
  std::string (*text)(const std::string&);
};

std::string write(const OrderedJson& value, const Style& style) {
  if (value.is_number_float()) return number_text(value.get<double>());
  if (value.is_string()) return style.text(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value.dump();
  std::string out = value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += style.separator;
    first = false;
    if (value.is_object()) out += style.text(key) + style.colon;
    out += write(item, style);
  }
  return out + (value.is_array() ? "]" : "}");
}

}  // namespace

std::string number_text(double value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string canonical_json(const OrderedJson& value) {
  return write(value, {",", ":", quoted});
}

std::string yaml_text(const OrderedJson& value) {
  return write(value, {", ", ": ", [](const std::string& text) {
                         return is_plain_safe(text) ? text : quoted(text);
                       }});
}

}  // namespace wmtp::config
