// Elements of a master as the bodies of AdamW read and write them, however it is kept.
#pragma once
#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/kernels/cpu/stochastic_rounding.h"

namespace wmtp::kernels::cpu {

// fp32, or bf16 that is rounded stochastically.
template <class T>
class MasterTensor {
 public:
  explicit MasterTensor(const AdamW& args) : values_(args.param.data_ptr<T>()) {}
  float load(std::int64_t i) const { return static_cast<float>(values_[i]); }
  void store(std::int64_t i, float value, std::uint32_t random16) const {
    store_param(values_[i], value, random16);
  }

 private:
  T* values_;
};

class MasterPlanes {
 public:
  explicit MasterPlanes(const AdamW& args)
      : upper_(args.param.data_ptr<c10::BFloat16>()),
        lower_(args.param_lower.data_ptr<std::int16_t>()) {}
  float load(std::int64_t i) const {
    return std::bit_cast<float>(joined_bits({upper_[i].x, lower_[i]}));
  }
  void store(std::int64_t i, float value, std::uint32_t) const {
    const PlaneBits planes = split_bits(std::bit_cast<std::uint32_t>(value));
    upper_[i].x = planes.upper;
    lower_[i] = planes.lower;
  }

 private:
  c10::BFloat16* upper_;
  std::int16_t* lower_;
};

}  // namespace wmtp::kernels::cpu
