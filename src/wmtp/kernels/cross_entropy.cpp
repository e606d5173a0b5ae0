#include "wmtp/kernels/cross_entropy.h"

#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {
namespace {

void check(const CrossEntropy& args) {
  const Demands demands("cross_entropy", args.logits_MV);
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

}  // namespace

void cross_entropy(const CrossEntropy& args) {
  check(args);
  const bool is_double = is_double_on_cpu("cross_entropy", args.logits_MV);
  cpu::check_targets(args.targets_M, args.logits_MV.size(1));
  is_double ? cpu::cross_entropy<double>(args) : cpu::fast::cross_entropy(args);
}

}  // namespace wmtp::kernels
