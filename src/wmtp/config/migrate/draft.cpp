#include "wmtp/config/migrate/draft.h"

#include <fmt/format.h>

#include "wmtp/config/canonical.h"
#include "wmtp/config/nested_lines.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/core/printable.h"

namespace wmtp::config {
namespace {

std::size_t row_of(std::string_view key) {
  return schema().index(*schema().find(key));
}

// A comment is one line, whatever it quotes.
std::string comment_text(std::string_view text) {
  std::string line = printable(text);
  for (char& c : line)
    if (c == '\n' || c == '\t') c = ' ';
  return line;
}

// Lines, and the place each comes from.
class Writer {
 public:
  void comment(const std::string& text) { line("# " + comment_text(text), {}); }

  void entry(const Draft::Entry& entry) {
    std::vector<std::string> lines = nested_.add(entry.key, flow_text(entry.value));
    if (!entry.comment.empty()) lines.back() += "  # " + comment_text(entry.comment);
    for (const std::string& text : lines) line(text, entry.place);
  }

  Draft::Text take() { return std::move(text_); }

 private:
  void line(const std::string& text, Place place) {
    text_.yaml += text + "\n";
    text_.places.push_back(place);
  }

  Draft::Text text_;
  NestedLines nested_;
};

}  // namespace

std::string flow_text(const Node& node) {
  if (node.is(Node::Kind::null)) return "null";
  if (node.is(Node::Kind::text)) return yaml_text(node.text);
  if (!node.is(Node::Kind::list) && !node.is(Node::Kind::map)) return node.text;
  const bool map = node.is(Node::Kind::map);
  std::string text;
  for (std::size_t i = 0; i < node.items.size(); ++i)
    text += fmt::format("{}{}{}", i > 0 ? ", " : "", map ? yaml_text(node.keys[i].name) + ": " : "",
                        flow_text(node.items[i]));
  return map ? "{" + text + "}" : "[" + text + "]";
}

Draft::Entry* Draft::find(std::string_view key) {
  const auto found = entries_.find(row_of(key));
  return found == entries_.end() ? nullptr : &found->second;
}

std::string Draft::text_of(std::string_view key) {
  const Entry* entry = find(key);
  return entry ? entry->value.text : "";
}

Draft::Entry& Draft::put(Entry entry) {
  const std::size_t row = row_of(entry.key);
  return entries_[row] = std::move(entry);
}

void Draft::erase(std::string_view key) {
  entries_.erase(row_of(key));
}

std::vector<std::string> Draft::keys() const {
  std::vector<std::string> keys;
  for (const auto& [row, entry] : entries_) keys.push_back(entry.key);
  return keys;
}

Draft::Text Draft::text(const std::vector<std::string>& head,
                        const std::vector<std::string>& tail) const {
  Writer writer;
  for (const std::string& line : head) writer.comment(line);
  for (const auto& [row, entry] : entries_) writer.entry(entry);
  for (const std::string& line : tail) writer.comment(line);
  return writer.take();
}

}  // namespace wmtp::config
