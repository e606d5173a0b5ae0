#include "wmtp/kernels/adamw.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {
namespace {

void check(const AdamW& args) {
  const Demands demands("adamw", args.param);
  const DType dtype = args.param.scalar_type();
  const std::int64_t size = args.param.numel();
  demands.vector("param", args.param, size, dtype)
      .vector("exp_avg", args.exp_avg, size, dtype)
      .vector("exp_avg_sq", args.exp_avg_sq, size, dtype)
      .gradient("grad", args.grad, {size})
      .scalar("grad_scale", args.grad_scale, dtype)
      .scalar("applied_steps", args.applied_steps, kInt64)
      .scalar("apply", args.apply, kInt32);
  WMTP_CHECK(dtype == kFloat32 || dtype == kFloat64, "adamw: the master is not fp32");
  const DType grad = args.grad.scalar_type();
  WMTP_CHECK(grad == dtype || grad == kBFloat16, "adamw: gradient neither as master nor bf16");
  if (args.compute_copy.defined()) demands.gradient("compute_copy", args.compute_copy, {size});
}

}  // namespace

void adamw(const AdamW& args) {
  check(args);
  if (is_double_on_cpu("adamw", args.param)) return cpu::adamw<double>(args);
  cpu::fast::adamw(args);
}

}  // namespace wmtp::kernels
