// Which elements of a tensor stand for it where reading all of them would take too long.
#pragma once
#include <cstdint>

namespace wmtp::models {

// Calls visit(begin, count) for eight pieces of 4096 elements spread evenly, the first and the last
// among them; a small tensor is one piece.
template <class Visit>
void for_each_sample(std::int64_t numel, Visit&& visit) {
  constexpr std::int64_t kNumPieces = 8, kPieceElements = 4096;
  if (numel <= kNumPieces * kPieceElements) return visit(0, numel);
  for (std::int64_t i = 0; i < kNumPieces; ++i)
    visit((numel - kPieceElements) / (kNumPieces - 1) * i, kPieceElements);
}

}  // namespace wmtp::models
