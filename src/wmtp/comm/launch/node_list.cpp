#include "wmtp/comm/launch/node_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "wmtp/core/error.h"

namespace wmtp::comm {
namespace {

[[noreturn]] void refuse(std::string_view list, std::string_view fact) {
  throw Error(ErrorKind::config, "comm",
              fmt::format("cannot read the Slurm list '{}': {}", list.substr(0, 200), fact),
              "set MASTER_ADDR to rank 0's host");
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

unsigned long number(std::string_view digits, std::string_view list) {
  unsigned long value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!all_digits(digits) || error != std::errc{} || end != digits.data() + digits.size())
    refuse(list, fmt::format("'{}' is not a number", digits));
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

// "7,09-11" -> 7, 09, 10, 11
std::vector<std::string> expand_group(std::string_view group, std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : split(group, ',')) {
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const unsigned long first = number(low, list);
    const unsigned long last =
        dash == std::string_view::npos ? first : number(part.substr(dash + 1), list);
    if (first > last) refuse(list, fmt::format("the range '{}' runs backwards", part));
    if (last - first >= kMaxNodeNames) refuse(list, "more than 65,536 names");
    for (unsigned long i = first; i <= last; ++i)
      names.push_back(fmt::format("{:0{}}", i, low.size()));
    if (names.size() > kMaxNodeNames) refuse(list, "more than 65,536 names");
  }
  return names;
}

void append_each(std::vector<std::string>& names, const std::vector<std::string>& tails,
                 std::string_view list) {
  if (names.size() * tails.size() > kMaxNodeNames) refuse(list, "more than 65,536 names");
  std::vector<std::string> joined;
  for (const std::string& name : names)
    for (const std::string& tail : tails) joined.push_back(name + tail);
  names = std::move(joined);
}

std::vector<std::string> expand_item(std::string_view item, std::string_view list) {
  std::vector<std::string> names{""};
  bool had_group = false;
  while (!item.empty()) {
    const std::size_t open = item.find('[');
    const std::string_view text = item.substr(0, open);
    if (text.find_first_of("] \t") != std::string_view::npos) refuse(list, "unbalanced brackets");
    if (open == std::string_view::npos && had_group) refuse(list, "text after the last bracket");
    append_each(names, {std::string(text)}, list);
    if (open == std::string_view::npos) break;
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos) refuse(list, "unbalanced brackets");
    append_each(names, expand_group(item.substr(open + 1, close - open - 1), list), list);
    item = item.substr(close + 1);
    had_group = true;
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view item : split(list, ',')) {
    if (item.empty()) refuse(list, "an empty name");
    const std::vector<std::string> expanded = expand_item(item, list);
    names.insert(names.end(), expanded.begin(), expanded.end());
    if (names.size() > kMaxNodeNames) refuse(list, "more than 65,536 names");
  }
  return names;
}

std::vector<int> expand_tasks_per_node(std::string_view list) {
  std::vector<int> tasks;
  for (const std::string_view item : split(list, ',')) {
    const std::size_t open = item.find("(x");
    unsigned long repeat = 1;
    if (open != std::string_view::npos) {
      if (item.back() != ')') refuse(list, fmt::format("'{}' is not COUNT(xREPEAT)", item));
      repeat = number(item.substr(open + 2, item.size() - open - 3), list);
    }
    const unsigned long count = number(item.substr(0, open), list);
    if (repeat > kMaxNodeNames || tasks.size() + repeat > kMaxNodeNames || count > 65'536)
      refuse(list, "more than 65,536 entries");
    tasks.insert(tasks.end(), repeat, static_cast<int>(count));
  }
  return tasks;
}

}  // namespace wmtp::comm
