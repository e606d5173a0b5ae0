// linear_cross_entropy. N rows of hidden, M with a target, V vocabulary, D features.
#include <ATen/ops/gather.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/linear_cross_entropy.h"

namespace wmtp::kernels::testing {
namespace {

struct LossShape {
  std::int64_t rows, every, vocabulary, features, chunk_rows;
  double weight_scale = 0.3;
};

Tensors loss_inputs(const LossShape& shape) {
  std::vector<std::int32_t> rows;
  for (std::int64_t n = shape.every - 1; n < shape.rows; n += shape.every)
    rows.push_back(static_cast<std::int32_t>(n));
  const auto targets = static_cast<std::int64_t>(rows.size());
  Tensor rows_M = at::empty({targets}, at::TensorOptions().dtype(kInt32));
  std::copy(rows.begin(), rows.end(), rows_M.data_ptr<std::int32_t>());
  Tensor scale = normals("scale", {targets});
  if (targets > 2) scale.data_ptr<double>()[1] = 0;
  return {{"hidden", normals("hidden", {shape.rows, shape.features})},
          {"weight", normals("weight", {shape.vocabulary, shape.features}, shape.weight_scale)},
          {"dweight", normals("dweight", {shape.vocabulary, shape.features})},
          {"rows", rows_M},
          {"targets", integers("targets", targets, shape.vocabulary)},
          {"scale", scale}};
}

Tensors run_loss(const Tensors& in, const LossShape& shape) {
  LinearCrossEntropy args{in.at("hidden"), in.at("weight"), {}, in.at("targets"), shape.chunk_rows};
  if (shape.every > 1) args.rows_M = in.at("rows");
  const LinearCrossEntropyGrads grads{in.at("scale"), fresh_like(in.at("hidden")),
                                      copied(in.at("dweight"))};
  const Tensor with_grads = nll_and_grad(args, grads);
  return {{"nll", with_grads},
          {"nll_alone", nll(args)},
          {"dhidden", grads.dhidden_ND},
          {"dw", grads.dweight_VD}};
}

Tensors define_loss(const Tensors& in) {
  const Tensor hidden = in.at("hidden").index_select(0, in.at("rows"));
  const Tensor log_p = at::log_softmax(at::mm(hidden, in.at("weight").t()), 1);
  const Tensor nll = -at::gather(log_p, 1, in.at("targets").to(kInt64).unsqueeze(1)).squeeze(1);
  return {{"nll", nll}, {"nll_alone", nll}};
}

OpCase loss_case(const LossShape& shape) {
  OpCase op;
  op.name = fmt::format("linear_cross_entropy_{}by{}x{}x{}_chunk{}", shape.rows, shape.every,
                        shape.vocabulary, shape.features, shape.chunk_rows);
  op.inputs = [=] { return loss_inputs(shape); };
  op.wide = {"scale", "dweight"};
  op.run = [=](const Tensors& in) { return run_loss(in, shape); };
  op.oracle = define_loss;
  op.losses = {{"nll", "scale"}};
  op.gradients = {{"hidden", "dhidden", ""}, {"weight", "dw", "dweight"}};
  op.roundings = 5;
  op.longest_sum = std::max({shape.rows, shape.vocabulary, shape.features});
  return op;
}

}  // namespace

std::vector<OpCase> loss_cases() {
  return {loss_case({1, 1, 16, 8, 0}),     loss_case({0, 1, 16, 8, 0}),
          loss_case({20, 1, 512, 32, 3}),  loss_case({20, 3, 1000, 40, 0}),
          loss_case({9, 2, 777, 24, 2}),   loss_case({33, 1, 4104, 64, 0}),
          loss_case({6, 1, 32000, 16, 4}), loss_case({2, 1, 151936, 8, 0})};
}

// Logits of about one, so that what bf16 rounds off them stays small beside the probabilities.
std::vector<OpCase> loss_shapes() {
  std::vector<OpCase> cases;
  const auto add = [&](std::int64_t rows, std::int64_t every, std::int64_t vocabulary,
                       std::int64_t features) {
    const double scale = 1 / std::sqrt(static_cast<double>(features));
    cases.push_back(loss_case({rows, every, vocabulary, features, 0, scale}));
  };
  for (const std::int64_t edge : kEdges)
    for (const std::int64_t every : {1, 3}) {
      add(edge, every, 9, 9), add(9, every, edge, 9), add(9, every, 9, edge);
      if (edge < 1000) add(edge, every, edge, edge);
    }
  for (const std::int64_t every : {1, 3}) add(0, every, 9, 9);
  // Rows longer than shared memory, odd and even.
  add(3, 1, 151936, 9), add(3, 1, 151937, 9);
  return cases;
}

}  // namespace wmtp::kernels::testing
