// What the optimizer's bodies work on (table.h): plain pointers and numbers.
#pragma once
#include <cstdint>

namespace wmtp::kernels::cpu {

using Bf16Bits = std::uint16_t;

// cpu/adamw_factors.h, in fp32.
struct AdamWScalars {
  float beta1, beta2, keep, rate, correction2, eps, grad_scale;
};

struct AdamWRange : AdamWScalars {
  float *exp_avg, *exp_avg_sq;
  float* param;  // null: the master is in planes, both of which are given
  // The upper plane (codes/planes.h) is written beside `param` too where it is given, as a bf16
  // copy.
  std::uint16_t *upper, *lower;
  float* copy;        // may be null
  const float* grad;  // one of the two
  const Bf16Bits* grad_bf16;
};

// A master in fp32, in bf16 that is rounded stochastically, or in planes: one of the three is
// given, and one of the two gradients.
struct RoundedMaster : AdamWScalars {
  float* param;
  Bf16Bits* param_bf16;
  std::uint16_t *upper, *lower;
  const float* grad;
  const Bf16Bits* grad_bf16;
  // The range's element i takes the draws of element first_element + i (adamw.h).
  std::uint64_t seed, stream, first_element;
};

struct RoundedRange : RoundedMaster {
  Bf16Bits *exp_avg, *exp_avg_sq;
};

inline constexpr std::int64_t kElementsOfACodeBlock = 256;

// What a moment's codes mean (codes/moment_codes.h), and how they are found. All scaled values that
// share their upper 16 bits take the code start[bits >> 16] or the one after it: the latter from
// step[code] on. Of the last code that is NaN, which no value reaches.
struct CodeTable {
  float values[256], step[256];
  std::uint8_t start[65536];
  float least_scale;         // of a block
  float least_with_history;  // moments above it do not take code 0
};

struct CodedMoment {
  std::uint8_t* codes;
  float* scales;
  const CodeTable* table;
};

struct CodedRange : RoundedMaster {
  CodedMoment exp_avg, exp_avg_sq;
  std::int64_t size;
};

}  // namespace wmtp::kernels::cpu
