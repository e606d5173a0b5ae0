// NF4 taken back on a GPU: the bits of the CPU, for whatever sizes, stretches and places there are.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/nf4.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::testing {
namespace {

Tensor moved_to_gpu(const Tensor& tensor) {
  return tensor.defined() ? tensor.to(c10::Device(c10::kCUDA, 0)) : tensor;
}

Nf4Weights moved_to_gpu(const Nf4Weights& weights) {
  const Nf4Scales& scales = weights.scales;
  return {moved_to_gpu(weights.packed),
          {moved_to_gpu(scales.codes), moved_to_gpu(scales.group_max), scales.offset,
           scales.first_block}};
}

// Scales of all sizes, subnormal ones and a block of zeros too.
Nf4Weights quantized_normals(std::int64_t size, bool nested) {
  const Tensor values = normals("w", {size}, 0.02).to(kFloat32);
  if (size > 192) {
    values.narrow(0, 64, 64).zero_();
    values.narrow(0, 128, 64).mul_(1e-40);
  }
  const Tensor packed = at::empty({nf4_bytes(size)}, at::kByte);
  const Tensor absmax = at::empty({nf4_blocks(size)}, kFloat32);
  EXPECT_EQ(nf4_quantize(values, packed, absmax), -1);
  return {packed, nested ? nf4_quantize_scales(absmax) : Nf4Scales{.codes = absmax}};
}

// The weights in a buffer of sevens that begins `before` elements ahead of them: neither those nor
// the ones behind are touched.
Tensor within_sevens(const Nf4Weights& weights, std::int64_t size, DType dtype,
                     std::int64_t before) {
  const Tensor buffer = at::full({before + size + 9}, 7.0, weights.packed.options().dtype(dtype));
  nf4_dequantize(weights.packed, weights.scales, buffer.narrow(0, before, size));
  return buffer.cpu();
}

// 16384 weights are one group of scales; 8 elements of bf16, 4 of fp32 are stored at once.
TEST(Nf4OnGpu, HasTheBitsOfTheCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t size :
       {1, 2, 63, 64, 65, 127, 128, 255, 257, 16383, 16384, 16385, 100003})
    for (const bool nested : {true, false}) {
      const Nf4Weights cpu = quantized_normals(size, nested), gpu = moved_to_gpu(cpu);
      for (const DType dtype : {kFloat32, kBFloat16, kFloat16})
        for (const std::int64_t before : {0, 1, 2, 4, 8})
          EXPECT_TRUE(bit_equal(within_sevens(gpu, size, dtype, before),
                                within_sevens(cpu, size, dtype, before)))
              << fmt::format("{} weights, nested {}, {}, from element {}", size, nested,
                             wmtp::name_of(dtype), before);
    }
}

TEST(Nf4OnGpu, AnyStretchHasTheBitsOfTheCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  constexpr std::int64_t kSize = 3 * 16384 + 640;
  for (const bool nested : {true, false}) {
    const Nf4Weights cpu = quantized_normals(kSize, nested), gpu = moved_to_gpu(cpu);
    const Tensor whole = within_sevens(cpu, kSize, kBFloat16, 0);
    for (const std::int64_t begin : {0, 64, 16320, 16384, 16448, 33024, 49152, 49728})
      for (const std::int64_t size : {64, 128, 16384, 16448, 20480}) {
        if (begin + size > kSize) continue;
        const Nf4Weights part{gpu.packed.narrow(0, begin / 2, size / 2),
                              nf4_stretch(gpu.scales, begin / 64, size / 64)};
        EXPECT_TRUE(bit_equal(within_sevens(part, size, kBFloat16, 8).narrow(0, 8, size),
                              whole.narrow(0, begin, size)))
            << fmt::format("{} weights from {}, nested {}", size, begin, nested);
      }
  }
}

// Views of packed bytes that no load of a word may read.
TEST(Nf4OnGpu, BytesMayBeginAnywhere) {
  if (!cuda_loaded()) GTEST_SKIP() << "no GPU";
  const Nf4Weights cpu = quantized_normals(1000, /*nested=*/true);
  Nf4Weights gpu = moved_to_gpu(cpu);
  for (const std::int64_t before : {1, 2, 3}) {
    const Tensor bytes = at::empty({before + gpu.packed.numel()}, gpu.packed.options());
    bytes.narrow(0, before, gpu.packed.numel()).copy_(cpu.packed);
    gpu.packed = bytes.narrow(0, before, cpu.packed.numel());
    EXPECT_TRUE(
        bit_equal(within_sevens(gpu, 1000, kBFloat16, 0), within_sevens(cpu, 1000, kBFloat16, 0)));
  }
}

}  // namespace
}  // namespace wmtp::kernels::testing
