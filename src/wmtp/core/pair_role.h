// What a document is in a pair of a right and a wrong answer.
#pragma once
#include <cstdint>

namespace wmtp {

// The partner of a positive document is the one behind it. The loader writes these numbers, the
// losses read them.
enum PairRole : std::uint8_t { kSingle = 0, kPositive = 1, kNegative = 2 };

}  // namespace wmtp
