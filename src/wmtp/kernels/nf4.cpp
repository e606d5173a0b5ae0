#include "wmtp/kernels/nf4.h"

#include <ATen/ops/empty.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/nf4.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/simd/table.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

constexpr std::int64_t kBlocksOfAThread = 512;
constexpr DType kCodes = c10::ScalarType::Byte;

std::int64_t size_of_block(std::int64_t block, std::int64_t num_weights) {
  return std::min(kNf4Block, num_weights - block * kNf4Block);
}

std::int64_t first_not_finite(const float* values, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i)
    if (!std::isfinite(values[i])) return i;
  return -1;
}

void check_scales(const ArgChecks& demands, const Nf4Scales& scales, std::int64_t num_blocks) {
  demands.vector("scales", scales.codes, num_blocks, scales.nested() ? kCodes : kFloat32);
  if (!scales.nested()) return;
  const std::int64_t within = scales.first_block % kNf4Group;
  demands.vector("group_max", scales.group_max, nf4_groups(within + num_blocks), kFloat32);
}

// Reads a' of a block, counted from the stretch's first.
class ScaleReader {
 public:
  explicit ScaleReader(const Nf4Scales& scales)
      : within_(scales.first_block % kNf4Group), offset_(scales.offset) {
    if (scales.nested()) {
      codes_ = scales.codes.const_data_ptr<std::uint8_t>();
      group_max_ = scales.group_max.const_data_ptr<float>();
    } else {
      absmax_ = scales.codes.const_data_ptr<float>();
    }
  }
  float operator()(std::int64_t block) const {
    if (absmax_) return absmax_[block];
    return cpu::nf4_scale(codes_[block], group_max_[(within_ + block) / kNf4Group], offset_);
  }

 private:
  const std::uint8_t* codes_ = nullptr;
  const float *group_max_ = nullptr, *absmax_ = nullptr;
  std::int64_t within_;
  float offset_;
};

template <class T>
void dequantize_block(const std::uint8_t* packed, float scale, std::int64_t size, T* out) {
  if constexpr (std::is_same_v<T, float>)
    cpu::simd_kernels().nf4_dequantize(packed, scale, size, out);
  else
    cpu::nf4_dequantize_block(packed, scale, size, out);
}

template <class T>
void dequantize_on_cpu(const Tensor& packed, const Nf4Scales& scales, const Tensor& out) {
  const ScaleReader scale_of(scales);
  const auto* bytes = packed.const_data_ptr<std::uint8_t>();
  T* values = out.data_ptr<T>();
  const std::int64_t size = out.numel();
  cpu::parallel_for(nf4_blocks(size), kBlocksOfAThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      dequantize_block(bytes + block * kNf4Block / 2, scale_of(block), size_of_block(block, size),
                       values + block * kNf4Block);
  });
}

void dequantize_on_gpu(const Tensor& packed, const Nf4Scales& scales, const Tensor& out) {
  CudaNf4 args{};
  args.element = element_of("nf4_dequantize", out);
  args.packed = packed.const_data_ptr<std::uint8_t>();
  if (scales.nested()) {
    args.codes = scales.codes.const_data_ptr<std::uint8_t>();
    args.group_max = scales.group_max.const_data_ptr<float>();
    args.offset = scales.offset;
  } else {
    args.absmax = scales.codes.const_data_ptr<float>();
  }
  args.out = data_of(out);
  args.size = out.numel();
  args.skipped_blocks = scales.first_block % kNf4Group;
  check_launch("nf4_dequantize", gpu_kernels().nf4_dequantize(args, gpu_stream()));
}

}  // namespace

std::int64_t nf4_quantize(const Tensor& values, const Tensor& packed, const Tensor& absmax) {
  const std::int64_t size = values.numel();
  const ArgChecks demands("nf4_quantize", values);
  demands.vector("values", values, size, kFloat32)
      .vector("packed", packed, nf4_bytes(size), kCodes)
      .vector("absmax", absmax, nf4_blocks(size), kFloat32);
  const auto* source = values.const_data_ptr<float>();
  auto* bytes = packed.data_ptr<std::uint8_t>();
  auto* scales = absmax.data_ptr<float>();
  std::atomic<std::int64_t> broken = std::numeric_limits<std::int64_t>::max();
  cpu::parallel_for(nf4_blocks(size), kBlocksOfAThread, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      scales[block] = cpu::nf4_quantize_block(
          source + block * kNf4Block, size_of_block(block, size), bytes + block * kNf4Block / 2);
      if (std::isfinite(scales[block])) continue;
      for (auto first = broken.load(); block < first;)
        if (broken.compare_exchange_weak(first, block)) break;
    }
  });
  if (broken == std::numeric_limits<std::int64_t>::max()) return -1;
  return broken * kNf4Block +
         first_not_finite(source + broken * kNf4Block, size_of_block(broken, size));
}

Nf4Scales nf4_quantize_scales(const Tensor& absmax) {
  const std::int64_t num_blocks = absmax.numel();
  ArgChecks("nf4_quantize_scales", absmax).vector("absmax", absmax, num_blocks, kFloat32);
  const auto* scales = absmax.const_data_ptr<float>();
  double sum = 0;
  for (std::int64_t block = 0; block < num_blocks; ++block) sum += scales[block];
  Nf4Scales out;
  out.codes = at::empty({num_blocks}, kCodes);
  out.group_max = at::empty({nf4_groups(num_blocks)}, kFloat32);
  if (num_blocks > 0) out.offset = static_cast<float>(sum / static_cast<double>(num_blocks));
  auto* codes = out.codes.data_ptr<std::uint8_t>();
  auto* group_max = out.group_max.data_ptr<float>();
  cpu::parallel_for(nf4_groups(num_blocks), 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * kNf4Group, size = std::min(kNf4Group, num_blocks - first);
      group_max[group] = cpu::nf4_quantize_group(scales + first, size, out.offset, codes + first);
    }
  });
  return out;
}

Nf4Scales nf4_stretch(const Nf4Scales& scales, std::int64_t first_block, std::int64_t num_blocks) {
  WMTP_CHECK(scales.first_block <= first_block, "a stretch of scales begins before what there is");
  const std::int64_t begin = first_block - scales.first_block;
  Nf4Scales part{scales.codes.narrow(0, begin, num_blocks), {}, scales.offset, first_block};
  if (!scales.nested()) return part;
  const std::int64_t group = first_block / kNf4Group - scales.first_block / kNf4Group;
  part.group_max =
      scales.group_max.narrow(0, group, nf4_groups(first_block % kNf4Group + num_blocks));
  return part;
}

Tensor nf4_scales(const Nf4Scales& scales) {
  const std::int64_t num_blocks = scales.codes.numel();
  check_scales(ArgChecks("nf4_scales", scales.codes), scales, num_blocks);
  const ScaleReader scale_of(scales);
  Tensor out = at::empty({num_blocks}, kFloat32);
  auto* values = out.data_ptr<float>();
  for (std::int64_t block = 0; block < num_blocks; ++block) values[block] = scale_of(block);
  return out;
}

void nf4_dequantize(const Tensor& packed, const Nf4Scales& scales, const Tensor& out) {
  const ProfiledOperator operation("wmtp::nf4_dequantize");
  const std::int64_t size = out.numel();
  const ArgChecks demands("nf4_dequantize", out);
  demands.gradient("out", out, {size}).vector("packed", packed, nf4_bytes(size), kCodes);
  check_scales(demands, scales, nf4_blocks(size));
  if (size == 0) return;
  if (out.is_cuda()) return dequantize_on_gpu(packed, scales, out);
  switch (out.scalar_type()) {
    case kFloat32:
      return dequantize_on_cpu<float>(packed, scales, out);
    case kFloat64:
      return dequantize_on_cpu<double>(packed, scales, out);
    case kBFloat16:
      return dequantize_on_cpu<c10::BFloat16>(packed, scales, out);
    case kFloat16:
      return dequantize_on_cpu<c10::Half>(packed, scales, out);
    default:
      throw Error(ErrorKind::internal, "kernels",
                  "nf4_dequantize: out is none of fp32, fp64, bf16 and fp16");
  }
}

}  // namespace wmtp::kernels
