#include "wmtp/config/yaml/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace wmtp::config {
namespace {

std::string compose(const std::vector<Problem>& problems) {
  std::string text = "configuration refused:";
  for (std::size_t i = 0; i < std::min(problems.size(), ConfigError::kMaxShown); ++i)
    text += fmt::format("\n{}: {}", problems[i].where, problems[i].text);
  return text + fmt::format("\n{} error{}", problems.size(), problems.size() == 1 ? "" : "s");
}

// Names and values of hostile files must not move the terminal's cursor or fake lines.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(ErrorKind::config, "config", compose(problems)), problems_(std::move(problems)) {}

int Problems::add_file(std::string name) {
  sources_.push_back({printable(name), true});
  return static_cast<int>(sources_.size()) - 1;
}

int Problems::add_override(std::string flag) {
  sources_.push_back({std::move(flag), false});
  return static_cast<int>(sources_.size()) - 1;
}

void Problems::add(Place place, std::string_view key, std::string_view fact) {
  found_.push_back(
      {place, printable(key.empty() ? std::string(fact) : fmt::format("{}: {}", key, fact))});
}

std::string Problems::locate(Place place, bool with_column) const {
  if (place.source < 0) return "built-in";
  const Source& source = sources_[static_cast<std::size_t>(place.source)];
  if (!source.is_file || place.line == 0) return source.name;
  if (!with_column) return fmt::format("{}:{}", source.name, place.line);
  return fmt::format("{}:{}:{}", source.name, place.line, place.column);
}

void Problems::throw_if_any() const {
  if (found_.empty()) return;
  std::vector<Found> sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Found& a, const Found& b) {
    return std::tie(a.place.source, a.place.line, a.place.column) <
           std::tie(b.place.source, b.place.line, b.place.column);
  });
  std::vector<Problem> problems;
  for (const Found& found : sorted) problems.push_back({locate(found.place), found.text});
  throw ConfigError(std::move(problems));
}

}  // namespace wmtp::config
