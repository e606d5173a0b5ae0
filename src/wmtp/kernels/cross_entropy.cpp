#include "wmtp/kernels/cross_entropy.h"

#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void check_cross_entropy(const CrossEntropy& args) {
  const ArgChecks demands("cross_entropy", args.logits_MV);
  const DType dtype = args.logits_MV.scalar_type();
  const std::int64_t rows = args.logits_MV.size(0);
  demands.matrix("logits", args.logits_MV, rows, args.logits_MV.size(1), dtype)
      .vector("targets", args.targets_M, rows, kInt32)
      .vector("nll", args.nll_M, rows, statistics_dtype(dtype));
  if (!args.scale_M.defined()) return;
  demands.vector("scale", args.scale_M, rows, statistics_dtype(dtype));
  if (args.hidden_MD.defined())
    demands.matrix("hidden", args.hidden_MD, rows, args.hidden_MD.size(1), dtype);
}

void cross_entropy_on_gpu(const CrossEntropy& a) {
  CudaCrossEntropy args{};
  args.element = element_of("cross_entropy", a.logits_MV);
  args.logits = data_of(a.logits_MV), args.logits_stride = row_stride(a.logits_MV);
  args.hidden = data_of(a.hidden_MD), args.hidden_stride = row_stride(a.hidden_MD);
  args.num_features = a.hidden_MD.defined() ? a.hidden_MD.size(1) : 0;
  args.targets = a.targets_M.data_ptr<std::int32_t>();
  args.scale = floats_of(a.scale_M), args.nll = floats_of(a.nll_M);
  args.rows = a.logits_MV.size(0), args.num_logits = a.logits_MV.size(1);
  check_launch("cross_entropy", gpu_kernels().cross_entropy(args, gpu_stream()));
}

}  // namespace

void cross_entropy(const CrossEntropy& args) {
  const ProfiledOperator operation("wmtp::cross_entropy");
  check_cross_entropy(args);
  if (args.logits_MV.numel() == 0) return;
  if (args.logits_MV.is_cuda()) return cross_entropy_on_gpu(args);
  const bool is_double = is_double_on_cpu("cross_entropy", args.logits_MV);
  cpu::check_targets(args.targets_M, args.logits_MV.size(1));
  is_double ? cpu::cross_entropy<double>(args) : cpu::fast::cross_entropy(args);
}

}  // namespace wmtp::kernels
