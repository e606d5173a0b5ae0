// Products as a GPU makes them: sums in fp32 whatever the operands are, rounded once where the
// result is narrower. (The CPU's own products of 16-bit numbers are compiled at run time for
// instructions that a virtual machine may show and not have.)
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "emulated_gpu/device/on_twins.h"

namespace wmtp::emulated {
namespace {

Tensor widened(const Tensor& host) {
  const bool narrow = host.scalar_type() == at::kBFloat16 || host.scalar_type() == at::kHalf;
  return narrow ? host.to(at::kFloat) : host;
}

Tensor& mm(const Tensor& first, const Tensor& second, Tensor& out) {
  TORCH_CHECK(
      first.scalar_type() == second.scalar_type() && first.scalar_type() == out.scalar_type(),
      "mm: operands and output of different dtypes");
  TORCH_CHECK(out.dim() == 2 && out.size(0) == first.size(0) && out.size(1) == second.size(1),
              "mm: the output has another shape");
  on_twins({first, second, out},
           [](const auto& twins) { twins[2].copy_(at::mm(widened(twins[0]), widened(twins[1]))); });
  return out;
}

// beta 0: what is added to may be anything, NaN included.
Tensor& addmm_wide(const Tensor& self, const Tensor& first, const Tensor& second,
                   at::ScalarType dtype, const at::Scalar& beta, const at::Scalar& alpha,
                   Tensor& out) {
  TORCH_CHECK(out.scalar_type() == dtype && self.scalar_type() == dtype,
              "addmm: the output is not of the dtype asked for");
  on_twins({self, first, second, out}, [beta, alpha](const auto& twins) {
    twins[3].copy_(at::addmm(widened(twins[0]), widened(twins[1]), widened(twins[2]), beta, alpha));
  });
  return out;
}

Tensor& addmm(const Tensor& self, const Tensor& first, const Tensor& second, const at::Scalar& beta,
              const at::Scalar& alpha, Tensor& out) {
  TORCH_CHECK(first.scalar_type() == out.scalar_type() && second.scalar_type() == out.scalar_type(),
              "addmm: operands and output of different dtypes");
  return addmm_wide(self, first, second, out.scalar_type(), beta, alpha, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("mm.out", &mm);
  library.impl("addmm.out", &addmm);
  library.impl("addmm.dtype_out", &addmm_wide);
}

}  // namespace wmtp::emulated
