// Units of weights for tests of the runtime: a root that is kept, and blocks of different sizes.
#pragma once
#include <string>
#include <vector>

#include "wmtp/layout/unit_spec.h"

namespace wmtp::parallel::test {

inline constexpr int kBlocks = 5;

// A root and five blocks of 256, 512, ... elements: shards are rounded up to 128.
inline std::vector<layout::UnitSpec> make_units(bool trained = true) {
  std::vector<layout::UnitSpec> units{{"root", {{"root.w", {256}, trained}}, /*kept=*/true}};
  for (int block = 0; block < kBlocks; ++block)
    units.push_back({"block" + std::to_string(block),
                     {{"block" + std::to_string(block) + ".w", {256 * (block + 1)}, trained}}});
  return units;
}

}  // namespace wmtp::parallel::test
