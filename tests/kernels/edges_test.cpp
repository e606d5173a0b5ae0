// What the op-matrix cannot say: NaN where nothing may read it, aliasing, refusals, threads,
// memory.
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "tests/kernels/op_matrix.h"
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/embedding.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::kernels::testing {
namespace {

constexpr float kFloatNaN = std::numeric_limits<float>::quiet_NaN();

Tensor fp32(const std::string& name, std::vector<std::int64_t> sizes) {
  return normals(name, std::move(sizes)).to(kFloat32);
}

// Rows 1 and 3 carry NaN: row 1 has no target, row 3 has scale 0.
TEST(LinearCrossEntropy, NaNInRowsThatDoNotCountReachesNoGradient) {
  const Tensor hidden = fp32("hidden", {5, 8}), weight = fp32("weight", {40, 8});
  Tensor rows = at::empty({4}, at::TensorOptions().dtype(kInt32));
  const std::int32_t with_target[] = {0, 2, 3, 4};
  std::copy_n(with_target, 4, rows.data_ptr<std::int32_t>());
  Tensor scale = at::ones({4});
  scale[2] = 0;
  const LinearCrossEntropy args{hidden, weight, rows, integers("targets", 4, 40), 0};
  const LinearCrossEntropyGrads clean{scale, at::empty_like(hidden), at::zeros({40, 8})};
  nll_and_grad(args, clean);
  hidden[1] = kFloatNaN;
  hidden[3] = kFloatNaN;
  const LinearCrossEntropyGrads dirty{scale, at::empty_like(hidden), at::zeros({40, 8})};
  const Tensor nll = nll_and_grad(args, dirty);
  EXPECT_TRUE(bit_equal(clean.dhidden_ND, dirty.dhidden_ND));
  EXPECT_TRUE(bit_equal(clean.dweight_VD, dirty.dweight_VD));
  EXPECT_TRUE(std::isnan(nll[2].item<float>()));
  EXPECT_TRUE(std::isfinite(nll[1].item<float>()));
}

TEST(LinearCrossEntropy, ChunkSizeChangesNothingBeyondRounding) {
  const Tensor hidden = fp32("hidden", {37, 16}), weight = fp32("weight", {300, 16});
  const Tensor targets = integers("targets", 37, 300), scale = at::ones({37});
  const auto run = [&](std::int64_t chunk_rows) {
    const LinearCrossEntropyGrads grads{scale, at::empty_like(hidden), at::zeros_like(weight)};
    const Tensor nll = nll_and_grad({hidden, weight, {}, targets, chunk_rows}, grads);
    return Tensors{{"nll", nll}, {"dhidden", grads.dhidden_ND}, {"dweight", grads.dweight_VD}};
  };
  const Tensors whole = run(0);
  for (const std::int64_t chunk_rows : {1, 5, 36, 37, 1000})
    for (const auto& [name, value] : run(chunk_rows))
      EXPECT_LE(worst_error(value, whole.at(name)), 1e-5) << name << " " << chunk_rows;
}

TEST(LinearCrossEntropy, HugeLogitsStayFinite) {
  const Tensor hidden = at::full({2, 4}, 1e4f), weight = fp32("weight", {64, 4}) * 1e4;
  const LinearCrossEntropyGrads grads{at::ones({2}), at::empty_like(hidden), at::zeros({64, 4})};
  const Tensor nll = nll_and_grad({hidden, weight, {}, integers("targets", 2, 64), 0}, grads);
  EXPECT_TRUE(nll.isfinite().all().item<bool>());
  EXPECT_TRUE(grads.dweight_VD.isfinite().all().item<bool>());
}

TEST(LinearCrossEntropy, FrozenWeightAndBadTarget) {
  const Tensor hidden = fp32("hidden", {3, 8}), weight = fp32("weight", {16, 8});
  const LinearCrossEntropyGrads frozen{at::ones({3}), at::empty_like(hidden), {}};
  nll_and_grad({hidden, weight, {}, integers("targets", 3, 16), 0}, frozen);
  EXPECT_TRUE(frozen.dhidden_ND.isfinite().all().item<bool>());
  const Tensor bad = at::full({3}, 16, at::TensorOptions().dtype(kInt32));
  EXPECT_WMTP_ERROR(nll({hidden, weight, {}, bad, 0}), ErrorKind::data, "16");
}

TEST(RmsNorm, TheSumMayReplaceEitherTerm) {
  const Tensor weight = fp32("weight", {48}), rstd = at::empty({6});
  const Tensor x = fp32("x", {6, 48}), delta = fp32("delta", {6, 48});
  const Tensor sum = at::empty_like(x), out = at::empty_like(x);
  rms_norm({x, delta, weight, 1e-5, sum, out, rstd});
  const Tensor x2 = x.clone(), delta2 = delta.clone(), out2 = at::empty_like(x);
  rms_norm({x2, delta2, weight, 1e-5, x2, delta2, rstd});
  EXPECT_TRUE(bit_equal(x2, sum));
  EXPECT_TRUE(bit_equal(delta2, out));
  const Tensor delta3 = delta.clone();
  rms_norm({x, delta3, weight, 1e-5, delta3, out2, rstd});
  EXPECT_TRUE(bit_equal(delta3, sum));
  EXPECT_TRUE(bit_equal(out2, out));
}

TEST(RmsNorm, WrongShapesAndTypesNameTheArgument) {
  const Tensor x = fp32("x", {6, 48}), out = at::empty_like(x), rstd = at::empty({6});
  EXPECT_WMTP_ERROR(rms_norm({x, {}, fp32("w", {47}), 1e-5, {}, out, rstd}), ErrorKind::internal,
                    "weight has shape [47], not [48]");
  EXPECT_WMTP_ERROR(rms_norm({x, {}, fp32("w", {48}), 1e-5, {}, out, rstd.to(kFloat64)}),
                    ErrorKind::internal, "rstd is fp64, not fp32");
  const Tensor half = x.to(kBFloat16);
  EXPECT_WMTP_ERROR(
      rms_norm({half, {}, fp32("w", {48}).to(kBFloat16), 1e-5, {}, at::empty_like(half), rstd}),
      ErrorKind::config, "bf16");
}

TEST(Embedding, ATokenOutsideTheVocabularyIsADataError) {
  const Tensor weight = fp32("weight", {10, 4}), out = at::empty({2, 4});
  for (const int bad : {-1, 10}) {
    const Tensor tokens = at::full({2}, bad, at::TensorOptions().dtype(kInt32));
    EXPECT_WMTP_ERROR(embedding(tokens, weight, out), ErrorKind::data, std::to_string(bad));
  }
}

struct AdamState {
  AdamW args;
  AdamState(std::int64_t size, float gradient, int apply) {
    args.param = at::ones({size});
    args.grad = at::full({size}, gradient);
    args.exp_avg = at::zeros({size});
    args.exp_avg_sq = at::zeros({size});
    args.learning_rate = 0.1, args.weight_decay = 0.01;
    args.grad_scale = at::ones({});
    args.applied_steps = at::zeros({}, at::TensorOptions().dtype(kInt64));
    args.apply = at::full({}, apply, at::TensorOptions().dtype(kInt32));
  }
};

TEST(AdamW, TheSpecifiedTwoSteps) {
  AdamState state(3, 0.5f, 1);
  adamw(state.args);
  EXPECT_NEAR(state.args.param[2].item<double>(), .899000002, 2e-7);
  state.args.grad.fill_(-0.2f);
  state.args.applied_steps.fill_(1);
  adamw(state.args);
  EXPECT_NEAR(state.args.param[0].item<double>(), .863221345, 2e-7);
}

TEST(AdamW, ABadStepLeavesEverythingAsItIs) {
  AdamState state(5, kFloatNaN, 0);
  adamw(state.args);
  EXPECT_TRUE(bit_equal(state.args.param, at::ones({5})));
  EXPECT_TRUE(bit_equal(state.args.exp_avg, at::zeros({5})));
  EXPECT_TRUE(bit_equal(state.args.exp_avg_sq, at::zeros({5})));
}

TEST(AdamW, Bf16GradientAndComputeCopy) {
  AdamState wide(1000, 0, 1), narrow(1000, 0, 1);
  const Tensor grad = fp32("grad", {1000}).to(kBFloat16);
  wide.args.grad = grad.to(kFloat32);
  narrow.args.grad = grad;
  narrow.args.compute_copy = at::empty({1000}, at::TensorOptions().dtype(kBFloat16));
  adamw(wide.args);
  adamw(narrow.args);
  EXPECT_TRUE(bit_equal(wide.args.param, narrow.args.param));
  // Ties apart, which planes_test.cpp has, nearest is nearest.
  EXPECT_TRUE(bit_equal(narrow.args.compute_copy, narrow.args.param.to(kBFloat16)));
}

// Every op that sums over rows must give the same bits whatever the number of threads.
TEST(Threads, TheirNumberChangesNoBit) {
  const std::int64_t rows = 300, columns = 512;
  const Tensor x = fp32("x", {rows, columns}), dout = fp32("dout", {rows, columns});
  const Tensor weight = fp32("weight", {columns}), tokens = integers("tokens", rows, 50);
  const Tensor qkv = fp32("qkv", {rows, 6 * 64}), flat = fp32("flat", {300000});
  const auto run = [&] {
    Tensors out{{"out", at::empty_like(x)},
                {"dx", at::zeros_like(x)},
                {"dw", at::zeros({columns})},
                {"de", at::zeros({50, columns})},
                {"norm", at::zeros({}, at::kDouble)}};
    const Tensor rstd = at::empty({rows});
    rms_norm({x, {}, weight, 1e-5, {}, out["out"], rstd});
    rms_norm_backward({dout, x, rstd, weight, out["dx"], out["dw"]});
    embedding_backward(tokens, dout, out["de"]);
    add_squared_norm(flat, out["norm"]);
    const HeadShape heads{4, 1, 64};
    const RopeTable table = rope_table(tokens, fp32("freq", {32}));
    const Tensor w = fp32("w", {64});
    const Tensor qk_out = at::empty({rows, 5 * 64}), qk_rstd = at::empty({rows, 5});
    rope({heads, table, qkv, w, w, 1e-6, qk_out, qk_rstd});
    out["dqkv"] = at::empty_like(qkv);
    out["dqw"] = at::zeros({64});
    out["dkw"] = at::zeros({64});
    const Tensor all = qk_out.unflatten(1, {5, 64});
    rope_backward({heads, table, all.narrow(1, 0, 4), all.narrow(1, 4, 1), all.narrow(1, 0, 1), qkv,
                   qk_rstd, w, w, out["dqkv"], out["dqw"], out["dkw"]});
    return out;
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensors one = run();
  for (const int threads : {2, 3, 5}) {
    at::set_num_threads(threads);
    for (const auto& [name, value] : run()) EXPECT_TRUE(bit_equal(value, one.at(name))) << name;
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace wmtp::kernels::testing
