#include "wmtp/kernels/adamw.h"

#include "wmtp/core/error.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

bool in_8bit(const AdamW& args) {
  return args.exp_avg.defined() && args.exp_avg.scalar_type() == at::kByte;
}

bool in_bf16(const AdamW& args) {
  return args.exp_avg.defined() && args.exp_avg.scalar_type() == kBFloat16;
}

void check_planes(const ArgChecks& demands, const AdamW& args) {
  const std::int64_t size = args.param.numel();
  demands.vector("param", args.param, size, kBFloat16)
      .vector("param_lower", args.param_lower, size, c10::ScalarType::Short);
  WMTP_CHECK(!in_8bit(args), "adamw: a master in planes with moments in 8 bits");
  WMTP_CHECK(!args.compute_copy.defined(), "adamw: a copy of a master in planes");
}

void check_adamw(const AdamW& args) {
  const ArgChecks demands("adamw", args.param);
  const bool in_planes = args.param_lower.defined();
  const DType dtype = in_planes ? kFloat32 : args.param.scalar_type();
  const std::int64_t size = args.param.numel();
  if (in_planes) check_planes(demands, args);
  WMTP_CHECK(dtype == kFloat32 || dtype == kFloat64 || dtype == kBFloat16,
             "adamw: the master is neither fp32 nor bf16");
  WMTP_CHECK(dtype != kFloat64 || (!in_8bit(args) && !in_bf16(args)),
             "adamw: an fp64 master with moments of fewer bits than fp32");
  const DType moments = in_8bit(args) ? at::kByte : in_bf16(args) ? kBFloat16 : dtype;
  demands.vector("param", args.param, size, args.param.scalar_type())
      .vector("exp_avg", args.exp_avg, size, moments)
      .vector("exp_avg_sq", args.exp_avg_sq, size, moments)
      .gradient("grad", args.grad, {size})
      .scalar("grad_scale", args.grad_scale, statistics_dtype(dtype))
      .scalar("applied_steps", args.applied_steps, kInt64)
      .scalar("apply", args.apply, kInt32);
  if (in_8bit(args))
    demands.vector("exp_avg_scales", args.exp_avg_scales, num_code_blocks(size), kFloat32)
        .vector("exp_avg_sq_scales", args.exp_avg_sq_scales, num_code_blocks(size), kFloat32);
  const DType grad = args.grad.scalar_type();
  WMTP_CHECK(grad == statistics_dtype(dtype) || grad == kBFloat16,
             "adamw: gradient neither fp32 nor bf16");
  if (args.compute_copy.defined()) demands.gradient("compute_copy", args.compute_copy, {size});
}

void adamw_on_gpu(const AdamW& a) {
  const bool bf16_master = a.param.scalar_type() == kBFloat16 && !a.param_lower.defined();
  WMTP_CHECK(bf16_master || !in_8bit(a), "adamw: 8-bit moments beside an fp32 master on a GPU");
  CudaAdamW args{};
  args.grad_element = element_of("adamw", a.grad);
  args.copy_element =
      a.compute_copy.defined() ? element_of("adamw", a.compute_copy) : Element::fp32;
  args.param = data_of(a.param), args.param_lower = data_of(a.param_lower);
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
  if (in_8bit(a)) {
    args.exp_avg_scales = a.exp_avg_scales.data_ptr<float>();
    args.exp_avg_sq_scales = a.exp_avg_sq_scales.data_ptr<float>();
  }
  const CudaKernels& gpu = gpu_kernels();
  const auto launch = in_8bit(a)    ? gpu.adamw_8bit
                      : !in_bf16(a) ? gpu.adamw
                      : bf16_master ? gpu.adamw_rounded
                                    : gpu.adamw_bf16_moments;
  check_launch("adamw", launch(args, gpu_stream()));
}

}  // namespace

void adamw(const AdamW& args) {
  const ProfiledOperator operation("wmtp::adamw");
  check_adamw(args);
  if (args.param.numel() == 0) return;
  if (args.param.is_cuda()) return adamw_on_gpu(args);
  if (in_8bit(args)) return cpu::fast::adamw_8bit(args);
  if (in_bf16(args)) return cpu::fast::adamw_rounded(args);
  if (args.param.scalar_type() == kFloat64) return cpu::adamw<double>(args);
  cpu::fast::adamw(args);
}

}  // namespace wmtp::kernels
