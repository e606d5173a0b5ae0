// A root and blocks with matrices in NF4 between plain parameters, and numbers for them.
#pragma once
#include <vector>

#include "wmtp/core/rng.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel::test {

// Sizes that no number of ranks up to five divides; scales of more than one group, and of one.
inline std::vector<layout::UnitSpec> quantized_units() {
  std::vector<layout::UnitSpec> units;
  units.push_back({"root", {{"embedding", {30, 16}, false}}, /*kept=*/true});
  for (int block = 0; block < 2; ++block) {
    const std::string name = "block" + std::to_string(block);
    units.push_back({name,
                     {{name + ".a", {130, 192}, false, /*quantized=*/true},
                      {name + ".b", {64, 3 + block}, false, /*quantized=*/true},
                      {name + ".norm", {77}, false},
                      {name + ".lora", {10, 20}, true}}});
  }
  return units;
}

// Element `i` of a parameter is a number of its name and place; some blocks are zero. fp32.
inline void read_numbers(const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
  std::uint64_t stream = 0;
  for (const char c : param.name) stream = 31 * stream + static_cast<unsigned char>(c);
  auto* values = out.data_ptr<float>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const auto place = static_cast<std::uint64_t>(begin + i);
    const double drawn = philox4x32_10(5, stream, place)[0] / 4294967296.0 - 0.5;
    const bool zero = place / 64 % 7 == 3;
    values[i] = zero ? 0.0f : static_cast<float>(drawn * static_cast<double>(1 + place / 64 % 5));
  }
}

}  // namespace wmtp::parallel::test
