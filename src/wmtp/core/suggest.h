// "Did you mean": the nearest of a set of names, or of what lies on the disk.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace wmtp {

std::size_t edit_distance(std::string_view a, std::string_view b);
// The one nearest name within `max_distance` edits (ties: the first), never one that would need
// every letter changed.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names,
                                   std::size_t max_distance = 2);

// The path as it would be without a slip in the names of it: something that exists, or nothing.
std::optional<std::string> near_path(const std::filesystem::path& path);
// What to do about a path that does not exist, for a hint: `did you mean models/llama?`, else what
// the last folder of it that exists holds. Never empty.
std::string missing_path_hint(const std::filesystem::path& path);

}  // namespace wmtp
