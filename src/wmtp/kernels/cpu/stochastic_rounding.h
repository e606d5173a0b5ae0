// Rounding to bf16 with random numbers that belong to the element (adamw.h).
#pragma once
#include <c10/util/BFloat16.h>

#include <bit>
#include <cmath>

#include "wmtp/core/rng.h"
#include "wmtp/kernels/adamw.h"

namespace wmtp::kernels::cpu {

// A carry out of the fraction moves to the next exponent, which is the next neighbour.
inline c10::BFloat16 rounded(float value, std::uint32_t random16) {
  if (!std::isfinite(value)) return c10::BFloat16(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) + random16;
  return {static_cast<std::uint16_t>(bits >> 16), c10::BFloat16::from_bits()};
}

// Stores a weight as its master keeps it.
inline void store_param(c10::BFloat16& to, float value, std::uint32_t random16) {
  to = rounded(value, random16);
}
inline void store_param(float& to, float value, std::uint32_t) {
  to = value;
}

// Every update draws from a stream of its own.
inline std::uint64_t rounding_stream(const AdamW& args) {
  return args.rounding.stream +
         static_cast<std::uint64_t>(*args.applied_steps.data_ptr<std::int64_t>() + 1);
}

// The numbers of consecutive elements of one range: each word is drawn once.
class RoundingDraws {
 public:
  struct Halves {
    std::uint32_t param, exp_avg, exp_avg_sq;
  };

  explicit RoundingDraws(const AdamW& args)
      : rounding_(args.rounding), stream_(rounding_stream(args)) {}

  // Of the range's element i, where `i` is one after the last one or anywhere.
  Halves at(std::int64_t i) {
    const auto e = static_cast<std::uint64_t>(rounding_.first_element + i);
    if (e / 2 != drawn_) words_ = philox4x32_10(rounding_.seed, stream_, drawn_ = e / 2);
    const std::uint32_t word = words_[2 * (e % 2)], next = words_[2 * (e % 2) + 1];
    return {word & 0xffffu, word >> 16, next & 0xffffu};
  }

 private:
  StochasticRounding rounding_;
  std::uint64_t stream_, drawn_ = ~std::uint64_t{0};
  PhiloxWords words_{};
};

}  // namespace wmtp::kernels::cpu
