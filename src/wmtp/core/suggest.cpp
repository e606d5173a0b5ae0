#include "wmtp/core/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLookedAt = 10000, kNamesShown = 5;

// Without hidden ones, in order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder.empty() ? "." : folder, error);
  for (; !error && entry != fs::directory_iterator() && names.size() < kLookedAt;
       entry.increment(error))
    if (const std::string name = entry->path().filename().string(); !name.starts_with('.'))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

// One letter of three to five may differ, two of six.
std::optional<std::string> near_name(const std::string& name, const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  return nearest(name, names, name.size() / 3);
}

fs::path existing_part(const fs::path& path) {
  fs::path found;
  std::error_code ignored;
  for (const fs::path& part : path) {
    if (!fs::exists(found / part, ignored)) break;
    found /= part;
  }
  return found;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names,
                                   std::size_t max_distance) {
  std::optional<std::string> best;
  std::size_t best_distance = max_distance + 1;
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(word, name);
    if (distance < best_distance && distance < std::max(word.size(), name.size())) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::optional<std::string> near_path(const fs::path& path) {
  fs::path found;
  std::error_code ignored;
  for (const fs::path& part : path) {
    if (part.empty()) continue;  // a slash at the end
    if (fs::exists(found / part, ignored)) {
      found /= part;
      continue;
    }
    const auto close = near_name(part.string(), found);
    if (!close) return std::nullopt;
    found /= *close;
  }
  return found.string();
}

std::string missing_path_hint(const fs::path& path) {
  if (const auto close = near_path(path)) return fmt::format("did you mean {}?", *close);
  const fs::path folder = existing_part(path);
  const std::string name = folder.empty() ? "the current folder" : folder.string();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return fmt::format("{} is a file", name);
  std::vector<std::string> names = names_in(folder);
  if (names.empty()) return fmt::format("{} is there, and empty", name);
  const std::size_t left_out = names.size() - std::min(names.size(), kNamesShown);
  names.resize(names.size() - left_out);
  return fmt::format("{} holds {}{}", name, fmt::join(names, ", "),
                     left_out > 0 ? fmt::format(" and {} more", left_out) : "");
}

}  // namespace wmtp
