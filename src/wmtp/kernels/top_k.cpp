#include "wmtp/kernels/top_k.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/responses.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void check_top_k(const TopK& args) {
  const ArgChecks demands("top_k", args.scores_M);
  const DType dtype = args.scores_M.scalar_type();
  const std::int64_t size = args.scores_M.numel();
  demands.vector("scores", args.scores_M, size, dtype)
      .vector("selected", args.selected_M, size, dtype)
      .vector("summary", args.summary_3, 3, kFloat64);
  if (args.valid_M.defined()) demands.vector("valid", args.valid_M, size, kMaskType);
  WMTP_CHECK(args.share_millionths > 0 && args.share_millionths <= 1'000'000,
             "top_k: the share must lie in (0, 1]");
}

void top_k_on_gpu(const TopK& a) {
  WMTP_CHECK(element_of("top_k", a.scores_M) == Element::fp32, "top_k: the scores are not fp32");
  CudaTopK args{};
  args.scores = floats_of(a.scores_M), args.selected = floats_of(a.selected_M);
  args.valid = static_cast<const std::uint8_t*>(data_of(a.valid_M));
  args.summary = a.summary_3.data_ptr<double>();
  args.size = a.scores_M.size(0), args.share_millionths = a.share_millionths;
  check_launch("top_k", gpu_kernels().top_k(args, gpu_stream()));
}

}  // namespace

void top_k(const TopK& args) {
  const ProfiledOperator operation("wmtp::top_k");
  check_top_k(args);
  if (args.scores_M.is_cuda()) return top_k_on_gpu(args);
  is_double_on_cpu("top_k", args.scores_M) ? cpu::top_k<double>(args) : cpu::top_k<float>(args);
}

}  // namespace wmtp::kernels
