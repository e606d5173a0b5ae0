// adamw and the squared norm.
#include <ATen/ops/full.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/grad_norm.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.95, kAdamEps = 1e-8, kDecay = 0.1,
                 kScale = 0.5;
constexpr std::int64_t kApplied = 4;

Tensors run_adamw(const Tensors& in) {
  const Tensor param = copied(in.at("param"));
  const auto on_device = param.options();
  AdamW args;
  args.param = param;
  args.grad = in.at("grad");
  args.exp_avg = copied(in.at("m1"));
  args.exp_avg_sq = copied(in.at("m2"));
  args.compute_copy = fresh_like(in.at("grad"));
  args.learning_rate = kRate, args.beta1 = kBeta1, args.beta2 = kBeta2, args.eps = kAdamEps;
  args.weight_decay = kDecay;
  args.grad_scale = at::full({}, kScale, on_device);
  args.applied_steps = at::full({}, kApplied, on_device.dtype(kInt64));
  args.apply = at::full({}, 1, on_device.dtype(kInt32));
  adamw(args);
  return {
      {"param", param}, {"m1", args.exp_avg}, {"m2", args.exp_avg_sq}, {"copy", args.compute_copy}};
}

Tensors define_adamw(const Tensors& in) {
  const Tensor g = in.at("grad") * kScale;
  const Tensor m1 = in.at("m1") * kBeta1 + (1 - kBeta1) * g;
  const Tensor m2 = in.at("m2") * kBeta2 + (1 - kBeta2) * g * g;
  const Tensor step = m1 / (1 - std::pow(kBeta1, kApplied + 1)) /
                      (at::sqrt(m2 / (1 - std::pow(kBeta2, kApplied + 1))) + kAdamEps);
  const Tensor param = in.at("param") * (1 - kRate * kDecay) - kRate * step;
  return {{"param", param}, {"m1", m1}, {"m2", m2}, {"copy", param}};
}

OpCase adamw_case(std::int64_t size) {
  OpCase op;
  op.name = fmt::format("adamw_{}", size);
  op.inputs = [=] {
    return Tensors{{"param", normals("param", {size})},
                   {"grad", normals("grad", {size})},
                   {"m1", normals("m1", {size}, 0.1)},
                   {"m2", normals("m2", {size}, 0.1).abs()}};
  };
  op.wide = {"param", "m1", "m2"};
  op.run = run_adamw;
  op.oracle = define_adamw;
  return op;
}

OpCase grad_norm_case(std::int64_t size) {
  OpCase op;
  op.name = fmt::format("add_squared_norm_{}", size);
  op.inputs = [=] { return Tensors{{"flat", normals("flat", {size})}}; };
  op.run = [](const Tensors& in) {
    const Tensor sum = at::full({}, 3.0, in.at("flat").options().dtype(kFloat64));
    add_squared_norm(in.at("flat"), sum);
    return Tensors{{"sum", sum}};
  };
  op.oracle = [](const Tensors& in) {
    return Tensors{{"sum", 3.0 + at::sum(in.at("flat") * in.at("flat"))}};
  };
  op.tolerance_fp32 = op.tolerance_fp32_on_gpu = op.tolerance_bf16 = 1e-12;
  op.in_fp64 = true;
  return op;
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  std::vector<OpCase> cases;
  for (const std::int64_t size : {0, 1, 37, 1000, 100003}) {
    cases.push_back(adamw_case(size));
    cases.push_back(grad_norm_case(size));
  }
  return cases;
}

std::vector<OpCase> optimizer_shapes() {
  std::vector<OpCase> cases{adamw_case(0), grad_norm_case(0)};
  for (const std::int64_t size : kEdges) {
    cases.push_back(adamw_case(size));
    cases.push_back(grad_norm_case(size));
  }
  return cases;
}

}  // namespace wmtp::kernels::testing
