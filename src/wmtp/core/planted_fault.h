// An off-by-one inside every parser that fuzz builds can switch on: the control of the fuzz
// targets, since a target that does not find it would find nothing. In every other build it is the
// constant 0 and leaves no trace.
#pragma once
#include <cstddef>

namespace wmtp {

#ifdef WMTP_FUZZ
inline std::size_t planted_off_by_one = 0;  // tests/fuzz sets it to 1 before the first input
#else
inline constexpr std::size_t planted_off_by_one = 0;
#endif

}  // namespace wmtp
