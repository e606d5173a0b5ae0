#include <algorithm>

#include "wmtp/kernels/cpu/adamw_factors.h"
#include "wmtp/kernels/cpu/code_search.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/stochastic_rounding.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

// One moment of the range: a block of it is read, updated as fp32 numbers and written back.
class MomentBlock {
 public:
  MomentBlock(Moment moment, const Tensor& codes, const Tensor& scales)
      : search_(CodeSearch::of(moment)),
        codes_(codes.data_ptr<std::uint8_t>()),
        scales_(scales.data_ptr<float>()) {}

  void read(std::int64_t block, std::int64_t size) {
    const float scale = scales_[block];
    const std::uint8_t* codes = codes_ + block * kCodeBlock;
    for (std::int64_t i = 0; i < size; ++i) values[i] = search_.value(codes[i]) * scale;
  }
  void write(std::int64_t block, std::int64_t size) const {
    scales_[block] = quantize_block(search_, {values, static_cast<std::size_t>(size)},
                                    codes_ + block * kCodeBlock);
  }

  float values[kCodeBlock];

 private:
  const CodeSearch& search_;
  std::uint8_t* codes_;
  float* scales_;
};

template <class P, class G>
void update_8bit(const AdamW& args) {
  const AdamWFactors<float> factors(args);
  P* const param = args.param.data_ptr<P>();
  const G* const grad = args.grad.data_ptr<G>();
  const std::int64_t size = args.param.numel();
  parallel_for(num_code_blocks(size), kBlocksOfAPart, [&](std::int64_t begin, std::int64_t end) {
    MomentBlock first(Moment::first, args.exp_avg, args.exp_avg_scales);
    MomentBlock second(Moment::second, args.exp_avg_sq, args.exp_avg_sq_scales);
    RoundingDraws draws(args);
    float updated[kCodeBlock];
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t start = block * kCodeBlock, count = std::min(kCodeBlock, size - start);
      first.read(block, count), second.read(block, count);
      for (std::int64_t i = 0; i < count; ++i)
        updated[i] =
            factors.updated(static_cast<float>(param[start + i]),
                            static_cast<float>(grad[start + i]), first.values[i], second.values[i]);
      for (std::int64_t i = 0; i < count; ++i)
        store_param(param[start + i], updated[i], draws.at(start + i).param);
      first.write(block, count), second.write(block, count);
    }
  });
}

}  // namespace

void adamw_8bit(const AdamW& args) {
  using Bf16 = c10::BFloat16;
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  const bool half_grad = args.grad.scalar_type() == kBFloat16;
  if (args.param.scalar_type() == kBFloat16)
    half_grad ? update_8bit<Bf16, Bf16>(args) : update_8bit<Bf16, float>(args);
  else
    half_grad ? update_8bit<float, Bf16>(args) : update_8bit<float, float>(args);
  if (args.compute_copy.defined()) round_to_compute(args.param, args.compute_copy);
}

}  // namespace wmtp::kernels::cpu
