#include "wmtp/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

// The first word w with (w + 0.5) 2^-32 >= p; both sides are exact in fp64.
std::uint64_t first_kept(double p) {
  return static_cast<std::uint64_t>(std::max(0.0, std::ceil(p * 0x1p32 - 0.5)));
}

void dropout_on_gpu(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI) {
  CudaDropout args{};
  args.element = element_of("dropout", x_NI);
  args.x = data_of(x_NI), args.out = data_of(out_NI);
  args.document = mask.document_N.data_ptr<std::int32_t>();
  args.position = mask.position_N.data_ptr<std::int32_t>();
  args.streams = mask.streams_D.data_ptr<std::int64_t>();
  args.rows = x_NI.size(0), args.columns = x_NI.size(1);
  args.x_stride = row_stride(x_NI), args.out_stride = row_stride(out_NI);
  args.seed = mask.seed;
  args.first_kept = first_kept(mask.p);
  args.scale = static_cast<float>(1 / (1 - mask.p));
  check_launch("dropout", gpu_kernels().dropout(args, gpu_stream()));
}

}  // namespace

void dropout(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI) {
  const ProfiledOperator operation("wmtp::dropout");
  const std::int64_t rows = x_NI.size(0);
  const ArgChecks demands("dropout", x_NI);
  demands.matrix("out", out_NI, rows, x_NI.size(1), x_NI.scalar_type())
      .vector("document", mask.document_N, rows, kInt32)
      .vector("position", mask.position_N, rows, kInt32)
      .vector("streams", mask.streams_D, mask.streams_D.numel(), kInt64);
  WMTP_CHECK(mask.p >= 0 && mask.p < 1, "dropout: p must lie in [0, 1)");
  if (x_NI.numel() == 0) return;
  if (x_NI.is_cuda()) return dropout_on_gpu(x_NI, mask, out_NI);
  x_NI.scalar_type() == kFloat64 ? cpu::dropout<double>(x_NI, mask, out_NI)
                                 : cpu::dropout<float>(x_NI, mask, out_NI);
}

}  // namespace wmtp::kernels
