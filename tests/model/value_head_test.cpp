#include "wmtp/model/value_head.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/tolerance.h"
#include "wmtp/model/init_weights.h"

namespace wmtp::model {
namespace {

Tensor random(std::vector<std::int64_t> shape, const std::string& name) {
  Tensor flat = at::empty({layout::ParamSpec{name, shape}.numel()}, at::kDouble);
  random_init({name, shape}, 1, 0.5, 0, flat);
  return flat.view(shape);
}

class ValueHeads : public ::testing::TestWithParam<ValueHeadType> {};

TEST_P(ValueHeads, EqualAutograd) {
  constexpr std::int64_t kDim = 32, kTokens = 7;
  const layout::UnitSpec unit = value_head_unit(GetParam(), kDim);
  const ValueHead head(GetParam(), kDim);
  const Tensor weights = random({unit.numel()}, "w"), u = random({kTokens, kDim}, "u"),
               upstream = random({kTokens}, "g");
  const Tensor grads = at::zeros({unit.numel()}, at::kDouble);
  const ValueHeadPass pass = head.forward(weights, u);
  const Tensor du = head.backward(weights, grads, pass, upstream);

  Tensor w = weights.clone().requires_grad_(true), input = u.clone().requires_grad_(true),
         x = input;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < unit.params.size(); i += 2) {
    const auto& shape = unit.params[i].shape;
    const Tensor weight = w.narrow(0, at, shape[0] * shape[1]).view(shape);
    const Tensor bias = w.narrow(0, at + shape[0] * shape[1], shape[0]);
    at += shape[0] * shape[1] + shape[0];
    x = at::linear(x, weight, bias);
    if (i + 2 < unit.params.size()) x = at::gelu(x);
  }
  Tensor values = x.squeeze(1);
  if (GetParam() == ValueHeadType::sigmoid) values = at::sigmoid(values);
  values.mul(upstream).sum().backward();
  // Roundings of 2^-53 in the sums over kDim features of each layer and back (model_run.h).
  const double layers = static_cast<double>(unit.params.size()) / 2;
  const double bound = 8 * 0x1p-53 * std::sqrt(2 * layers * kDim);
  EXPECT_WITHIN(pass.values_N.sub(values).norm().item<double>(),
                bound * values.norm().item<double>());
  EXPECT_WITHIN(grads.sub(w.grad()).norm().item<double>(), bound * w.grad().norm().item<double>());
  EXPECT_WITHIN(du.sub(input.grad()).norm().item<double>(),
                bound * input.grad().norm().item<double>());
}

INSTANTIATE_TEST_SUITE_P(All, ValueHeads,
                         ::testing::Values(ValueHeadType::mlp, ValueHeadType::linear,
                                           ValueHeadType::sigmoid));

TEST(ValueHead, ParameterCounts) {  // V35
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 16).numel(), 81);
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 3).numel(), 4 + 2 + 2);  // layers of at least 1
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 2560).numel(), 1844481);
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 4096).numel(), 4720641);
  EXPECT_EQ(value_head_unit(ValueHeadType::linear, 4096).numel(), 4097);
}

TEST(ValueHead, FromScratch) {
  const ValueHead head(ValueHeadType::mlp, 64);
  const layout::UnitSpec unit = value_head_unit(ValueHeadType::mlp, 64);
  for (const layout::ParamSpec& param : unit.params) {
    Tensor whole = at::empty({param.numel()}, at::kFloat),
           part = at::empty({param.numel() / 2}, at::kFloat);
    head.draw(param, 9, 0.5, 0, whole);
    head.draw(param, 9, 0.5, param.numel() - part.numel(), part);
    EXPECT_TRUE(part.equal(whole.slice(0, param.numel() - part.numel())));  // any range, any rank
    const bool last = param.name.find("mlp.6") != std::string::npos;
    const double bound = param.name.find("mlp.0") != std::string::npos ? 1 / 8.0 : 1 / 4.0;
    const double largest = whole.abs().max().item<double>();
    if (last) {
      EXPECT_EQ(largest, param.shape.size() == 1 ? 0.5 : 0.0);
      continue;
    }
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, param.shape.size() == 2 ? 0.9 * bound : 0.0);
  }
}

}  // namespace
}  // namespace wmtp::model
