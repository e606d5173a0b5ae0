// The code of a scaled value: what quantize() and the 8-bit update share.
#pragma once
#include <bit>
#include <cstddef>
#include <span>

#include "wmtp/kernels/codes/moment_codes.h"

namespace wmtp::kernels::cpu {

inline constexpr std::int64_t kBlocksOfAPart = 32;  // worth a thread
inline constexpr float kLeastScale = 1e-12f;

// The largest |x| by its bits: the order of elements does not matter, infinity is above every
// number and NaN above infinity.
class LargestMagnitude {
 public:
  void add(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
    bits_ = bits > bits_ ? bits : bits_;
  }
  float scale() const {
    const float largest = std::bit_cast<float>(bits_);
    return largest < kLeastScale ? kLeastScale : largest;
  }

 private:
  std::uint32_t bits_ = 0;
};

// Values that share their upper 16 bits lie between two neighbours of the map or around one of its
// values: the code of the least of them is looked up, and a step or two lead to the right one.
class CodeSearch {
 public:
  static const CodeSearch& of(Moment moment);

  std::uint8_t nearest(float y) const {
    std::size_t code = first_[std::bit_cast<std::uint32_t>(y) >> 16];
    while (code < 255 && values_[code + 1] <= y) ++code;
    if (code == 255) return 255;
    const float down = values_[code];
    return static_cast<std::uint8_t>(code + (y - down >= 0.5f * (values_[code + 1] - down)));
  }
  // Of x, with the floor of the second moment.
  std::uint8_t code_of(float x, float scale) const {
    const std::uint8_t code = nearest(x / scale);
    return code == 0 && x > least_with_history_ ? std::uint8_t{1} : code;
  }
  float value(std::uint8_t code) const { return values_[code]; }
  float least_with_history() const { return least_with_history_; }

 private:
  explicit CodeSearch(Moment moment);

  const DynamicMap& values_;
  float least_with_history_;  // above it code 0 is not taken
  std::array<std::uint8_t, 65536> first_;
};

// One block: `size` <= kCodeBlock values to their codes. Returns the scale.
float quantize_block(const CodeSearch& search, std::span<const float> values, std::uint8_t* codes);

}  // namespace wmtp::kernels::cpu
