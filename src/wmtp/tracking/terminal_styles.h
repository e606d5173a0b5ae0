// What switches styles of a terminal on and off.
#pragma once

namespace wmtp::tracking {

inline constexpr const char* kBoldOn = "\x1b[1m";
inline constexpr const char* kDimOn = "\x1b[2m";
inline constexpr const char* kStylesOff = "\x1b[0m";

}  // namespace wmtp::tracking
