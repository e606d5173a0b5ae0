#include "wmtp/kernels/adamw.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void check_adamw(const AdamW& args) {
  const ArgChecks demands("adamw", args.param);
  const DType dtype = args.param.scalar_type();
  const std::int64_t size = args.param.numel();
  demands.vector("param", args.param, size, dtype)
      .vector("exp_avg", args.exp_avg, size, dtype)
      .vector("exp_avg_sq", args.exp_avg_sq, size, dtype)
      .gradient("grad", args.grad, {size})
      .scalar("grad_scale", args.grad_scale, statistics_dtype(dtype))
      .scalar("applied_steps", args.applied_steps, kInt64)
      .scalar("apply", args.apply, kInt32);
  WMTP_CHECK(dtype == kFloat32 || dtype == kFloat64 || dtype == kBFloat16,
             "adamw: the master is neither fp32 nor bf16");
  const DType grad = args.grad.scalar_type();
  WMTP_CHECK(grad == statistics_dtype(dtype) || grad == kBFloat16,
             "adamw: gradient neither fp32 nor bf16");
  if (args.compute_copy.defined()) demands.gradient("compute_copy", args.compute_copy, {size});
}

void adamw_on_gpu(const AdamW& a) {
  CudaAdamW args{};
  args.grad_element = element_of("adamw", a.grad);
  args.copy_element =
      a.compute_copy.defined() ? element_of("adamw", a.compute_copy) : Element::fp32;
  args.param = data_of(a.param);
  args.exp_avg = data_of(a.exp_avg), args.exp_avg_sq = data_of(a.exp_avg_sq);
  args.grad = data_of(a.grad), args.copy = data_of(a.compute_copy);
  args.grad_scale = floats_of(a.grad_scale);
  args.applied_steps = a.applied_steps.data_ptr<std::int64_t>();
  args.apply = a.apply.data_ptr<std::int32_t>();
  args.size = a.param.numel();
  args.beta1 = static_cast<float>(a.beta1), args.beta2 = static_cast<float>(a.beta2);
  args.log_beta1 = static_cast<float>(std::log(a.beta1));
  args.log_beta2 = static_cast<float>(std::log(a.beta2));
  args.learning_rate = static_cast<float>(a.learning_rate);
  args.weight_decay = static_cast<float>(a.weight_decay);
  args.eps = static_cast<float>(a.eps);
  args.seed = a.rounding.seed, args.stream = a.rounding.stream;
  args.first_element = static_cast<std::uint64_t>(a.rounding.first_element);
  const bool rounded = a.param.scalar_type() == kBFloat16;
  const auto launch = rounded ? gpu_kernels().adamw_rounded : gpu_kernels().adamw;
  check_launch("adamw", launch(args, gpu_stream()));
}

}  // namespace

void adamw(const AdamW& args) {
  const ProfiledOperator operation("wmtp::adamw");
  check_adamw(args);
  if (args.param.numel() == 0) return;
  if (args.param.is_cuda()) return adamw_on_gpu(args);
  if (args.param.scalar_type() == kBFloat16) return cpu::adamw_rounded(args);
  if (is_double_on_cpu("adamw", args.param)) return cpu::adamw<double>(args);
  cpu::fast::adamw(args);
}

}  // namespace wmtp::kernels
