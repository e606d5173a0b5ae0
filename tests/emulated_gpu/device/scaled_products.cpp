// Products of operands of 8 bits as LibTorch's CUDA library offers them on Hopper: its demands on
// layouts, sizes and scales, and sums in fp32. (The real units add up in fewer bits, fewer still
// where `fast` is asked for.)
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "emulated_gpu/device/on_twins.h"

namespace wmtp::emulated {
namespace {

void check_layouts(const Tensor& a_MK, const Tensor& b_KN, const Tensor& out_MN) {
  TORCH_CHECK(a_MK.dim() == 2 && b_KN.dim() == 2 && a_MK.size(1) == b_KN.size(0),
              "_scaled_mm: shapes that cannot be multiplied");
  TORCH_CHECK(a_MK.size(1) % 16 == 0 && b_KN.size(1) % 16 == 0,
              "_scaled_mm: K and N must be multiples of 16");
  TORCH_CHECK(a_MK.stride(1) == 1 && a_MK.stride(0) >= a_MK.size(1) && b_KN.stride(0) == 1 &&
                  b_KN.stride(1) >= b_KN.size(0),
              "_scaled_mm: only row-major by column-major");
  TORCH_CHECK(out_MN.dim() == 2 && out_MN.size(0) == a_MK.size(0) &&
                  out_MN.size(1) == b_KN.size(1) && out_MN.stride(1) == 1 &&
                  out_MN.stride(0) >= out_MN.size(1),
              "_scaled_mm: the output has another shape or order");
  for (const Tensor& operand : {a_MK, b_KN, out_MN}) {
    const auto size = static_cast<std::int64_t>(operand.element_size());
    TORCH_CHECK(reinterpret_cast<std::uintptr_t>(operand.data_ptr()) % 16 == 0 &&
                    operand.stride(0) * operand.stride(1) * size % 16 == 0,
                "_scaled_mm: CUBLAS_STATUS_NOT_SUPPORTED, not aligned to 16 bytes");
  }
}

void check_dtypes(const Tensor& a, const Tensor& b, const Tensor& out,
                  std::optional<at::ScalarType> out_dtype) {
  TORCH_CHECK(c10::isFloat8Type(a.scalar_type()) && c10::isFloat8Type(b.scalar_type()),
              "_scaled_mm: operands that are not of 8 bits");
  TORCH_CHECK(a.scalar_type() != at::kFloat8_e5m2 || b.scalar_type() != at::kFloat8_e5m2,
              "_scaled_mm: multiplication of two e5m2 matrices is not supported");
  TORCH_CHECK(!out_dtype || *out_dtype == out.scalar_type(),
              "_scaled_mm: out_dtype must match the output");
  TORCH_CHECK(out.scalar_type() == at::kBFloat16 || out.scalar_type() == at::kHalf ||
                  out.scalar_type() == at::kFloat,
              "_scaled_mm: an output of this dtype");
}

// One each. Scales of rows are refused: on Hopper they fail for few rows under a long sum, so that
// the project leaves them to a product of its own (kernels/float8_product.cpp).
void check_scales(const Tensor& scale_a, const Tensor& scale_b) {
  for (const Tensor& scale : {scale_a, scale_b}) {
    TORCH_CHECK(scale.is_cuda() && scale.scalar_type() == at::kFloat && scale.numel() == 1,
                "_scaled_mm: scales must be one number in fp32 each");
    TORCH_CHECK(reinterpret_cast<std::uintptr_t>(scale.data_ptr()) % 16 == 0,
                "_scaled_mm: CUBLAS_STATUS_NOT_SUPPORTED, a scale that is not aligned to 16 bytes");
  }
}

Tensor& scaled_mm(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                  const std::optional<Tensor>& bias, const std::optional<Tensor>& scale_result,
                  std::optional<at::ScalarType> out_dtype, bool, Tensor& out) {
  TORCH_CHECK(!bias && !scale_result, "_scaled_mm: a bias or a scale of the result");
  check_layouts(a, b, out);
  check_dtypes(a, b, out, out_dtype);
  check_scales(scale_a, scale_b);
  on_twins({a, b, scale_a, scale_b, out}, [](const auto& twins) {
    const Tensor sums = at::mm(twins[0].to(at::kFloat), twins[1].to(at::kFloat));
    twins[4].copy_(sums.mul_(twins[2]).mul_(twins[3]));
  });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_scaled_mm.out", &scaled_mm);
}

}  // namespace wmtp::emulated
