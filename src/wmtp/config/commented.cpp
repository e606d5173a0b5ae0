#include "wmtp/config/commented.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "wmtp/config/canonical.h"
#include "wmtp/config/interpolate.h"
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

const Row& row_of(const std::string& key) {
  const Row* row = schema().find(key);
  WMTP_CHECK(row, "no key " + key);
  return *row;
}

// Opens the sections of `key` that the line before did not stand in.
void open_sections(const std::string& key, std::string& open, std::string& text) {
  const std::string section = key.substr(0, key.rfind('.') + 1);  // with its last dot
  std::size_t depth = 0;
  for (std::size_t dot = section.find('.'); dot != section.npos; dot = section.find('.', dot + 1)) {
    const std::string path = section.substr(0, dot);
    if (!open.starts_with(path + ".")) {
      if (depth == 0) text += "\n" + comment_lines(schema().section_help(path), 0);
      text += fmt::format("{:{}}{}:\n", "", 2 * depth, path.substr(path.rfind('.') + 1));
      open = path + ".";
    }
    ++depth;
  }
  open = section;
}

std::string help_of(const Row& row) {
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
  std::ranges::stable_sort(sorted, {},
                           [](const CommentedKey& one) { return schema().index(row_of(one.key)); });
  std::string text, open;
  for (const CommentedKey& one : sorted) {
    open_sections(one.key, open, text);
    const std::size_t indent = 2 * static_cast<std::size_t>(std::ranges::count(one.key, '.'));
    text += comment_lines(help_of(row_of(one.key)), indent);
    if (!one.fact.empty()) text += comment_lines("Here: " + one.fact, indent);
    // Quoted texts may hold any character; \u of JSON is one of YAML too.
    text += fmt::format("{:{}}{}: {}\n", "", indent, one.key.substr(one.key.rfind('.') + 1),
                        escape_control(yaml_text(escape_all_references(one.value))));
  }
  return text;
}

}  // namespace wmtp::config
