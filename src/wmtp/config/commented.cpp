#include "wmtp/config/commented.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "wmtp/config/canonical.h"
#include "wmtp/config/interpolate.h"
#include "wmtp/config/nested_lines.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"

namespace wmtp::config {
namespace {

constexpr std::size_t kCommentColumns = 100;

// One line that a terminal only shows; a word that would fill the screen is cut.
std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : printable(text))
    out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  return out;
}

const Row& schema_row(const std::string& key) {
  const Row* row = schema().find(key);
  WMTP_CHECK(row, "no key " + key);
  return *row;
}

std::string section_of(const std::string& key) {
  return key.substr(0, key.find('.'));
}

std::string help_with_choices(const Row& row) {
  std::string help = row.help;
  if (!row.type.choices.empty()) help += fmt::format(" ({})", fmt::join(row.type.choices, " | "));
  return help;
}

}  // namespace

std::string comment_lines(std::string_view text, std::size_t indent) {
  const std::string words = one_line(text);
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += fmt::format("{:{}}#{}\n", "", indent, line);
    line.clear();
  };
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (indent + 2 + line.size() + (end - at) > kCommentColumns) flush();
    if (end > at) line += " " + words.substr(at, end - at);
    at = end + 1;
  }
  flush();
  return out;
}

std::string commented_yaml(std::span<const CommentedKey> keys) {
  std::vector<CommentedKey> sorted(keys.begin(), keys.end());
  std::ranges::stable_sort(
      sorted, {}, [](const CommentedKey& one) { return schema().index(schema_row(one.key)); });
  std::string text;
  NestedLines nested;
  for (const CommentedKey& one : sorted) {
    // Quoted texts may hold any character; \u of JSON is one of YAML too.
    std::vector<std::string> lines =
        nested.add(one.key, escape_control(yaml_text(escape_all_references(one.value))));
    const std::string entry = lines.back();
    lines.pop_back();
    for (const std::string& section : lines) {
      const bool top = !section.starts_with(' ');
      if (top) text += "\n" + comment_lines(schema().section_help(section_of(one.key)), 0);
      text += section + "\n";
    }
    const std::size_t indent = entry.find_first_not_of(' ');
    text += comment_lines(help_with_choices(schema_row(one.key)), indent);
    if (!one.fact.empty()) text += comment_lines("Here: " + one.fact, indent);
    text += entry + "\n";
  }
  return text;
}

}  // namespace wmtp::config
