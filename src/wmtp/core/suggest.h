// "Did you mean": the nearest of a set of names.
#pragma once
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

}  // namespace wmtp
