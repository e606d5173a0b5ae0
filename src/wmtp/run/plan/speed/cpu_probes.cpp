// N tokens, D hidden, F FFN width, V vocabulary.
#include "wmtp/run/plan/speed/cpu_probes.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <memory>

#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

namespace k = kernels;
using ProbeKind = CpuProbe::Kind;

// Numbers of no special value: what is computed does not matter, that it is no denormal does.
Tensor filled(std::vector<std::int64_t> sizes) {
  return at::full(sizes, 0.25, at::TensorOptions().dtype(kFloat32));
}

CpuProbe pass_probe(Pass pass, double bytes, std::function<void()> run) {
  return {
      .kind = ProbeKind::pass, .pass = pass, .size = bytes, .work = bytes, .run = std::move(run)};
}

// All three products of a linear map, each once.
CpuProbe products(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  const Tensor x = filled({rows, inputs}), y = filled({rows, outputs}),
               weight = filled({outputs, inputs}), dweight = at::zeros_like(weight);
  return {.kind = ProbeKind::product,
          .size = static_cast<double>(std::min({rows, inputs, outputs})),
          .work = 6.0 * static_cast<double>(rows * inputs * outputs),
          .run = [=] {
            k::linear(x, weight, y);
            k::linear_backward_input(y, weight, x);
            k::linear_backward_weight(y, x, dweight);
          }};
}

CpuProbe attention(std::int64_t span, bool backward) {
  constexpr std::int64_t kHeads = 4, kFeatures = 64;
  const std::int64_t tokens = std::max<std::int64_t>(span, 256);
  std::vector<std::int32_t> start;
  for (std::int64_t at = 0; at <= tokens; at += span)
    start.push_back(static_cast<std::int32_t>(at));
  const auto documents =
      std::make_shared<k::Documents>(k::make_documents(start, c10::Device(c10::DeviceType::CPU)));
  const Tensor q = filled({tokens, kHeads, kFeatures}), key = filled({tokens, kHeads, kFeatures}),
               v = filled({tokens, kHeads, kFeatures}), dout = filled({tokens, kHeads, kFeatures});
  const double flops = 2.0 * static_cast<double>(tokens * span * kHeads * kFeatures);
  CpuProbe probe{.kind = backward ? ProbeKind::attention_backward : ProbeKind::attention_forward,
                 .size = static_cast<double>(span),
                 .work = backward ? 2 * flops : flops,
                 .run = {}};
  if (!backward) {
    probe.run = [=] { k::attention(q, key, v, *documents, {}); };
    return probe;
  }
  const auto forward =
      std::make_shared<k::AttentionResult>(k::attention(q, key, v, *documents, {}));
  probe.run = [=] { k::attention_backward({dout, q, key, v, forward.get(), documents.get(), {}}); };
  return probe;
}

CpuProbe norm(std::int64_t rows, std::int64_t width, bool backward) {
  const Tensor x = filled({rows, width}), delta = filled({rows, width}),
               out = filled({rows, width});
  const Tensor weight = filled({width}), rstd = filled({rows}), dweight = filled({width});
  const double bytes = 16.0 * static_cast<double>(rows * width);
  if (backward)
    return pass_probe(Pass::norm_backward, bytes, [=] {
      k::rms_norm_backward({delta, x, rstd, weight, out, dweight});
    });
  return pass_probe(Pass::norm, bytes, [=] {
    k::rms_norm({x, delta, weight, 1e-5, delta, out, rstd});
  });
}

CpuProbe rotation(std::int64_t rows, bool norm, bool backward) {
  const k::HeadShape heads{8, 8, 64};
  const std::int64_t features = heads.head_dim, rotated = heads.num_heads + heads.num_kv_heads;
  const Tensor positions = at::arange(rows, at::TensorOptions().dtype(kInt32));
  const k::RopeTable table = k::rope_table(positions, filled({features / 2}));
  const Tensor qkv = filled({rows, (rotated + heads.num_kv_heads) * features});
  k::Rope forward{heads, table, qkv, {}, {}, 1e-6, {}, {}};
  if (norm) {
    forward.q_weight_E = forward.k_weight_E = filled({features});
    forward.qk_out = filled({rows, rotated * features});
    forward.qk_rstd = filled({rows, rotated});
  }
  const double element = 4.0 * static_cast<double>(rows * features);
  if (!backward)
    return pass_probe(norm ? Pass::qk_rope : Pass::rope, 2 * element * static_cast<double>(rotated),
                      [=] { k::rope(forward); });
  k::RopeBackward back{heads,
                       table,
                       filled({rows, heads.num_heads, features}),
                       filled({rows, heads.num_kv_heads, features}),
                       filled({rows, heads.num_kv_heads, features}),
                       qkv,
                       forward.qk_rstd,
                       forward.q_weight_E,
                       forward.k_weight_E,
                       at::zeros_like(qkv),
                       {},
                       {}};
  if (norm) back.dq_weight_E = back.dk_weight_E = filled({features});
  const std::int64_t moved = 2 * (rotated + heads.num_kv_heads) + (norm ? rotated : 0);
  return pass_probe(norm ? Pass::qk_rope_backward : Pass::rope_backward,
                    element * static_cast<double>(moved), [=] { k::rope_backward(back); });
}

CpuProbe swiglu(std::int64_t rows, std::int64_t width, bool backward) {
  const Tensor gate_up = filled({rows, 2 * width}), out = filled({rows, width});
  const double element = 4.0 * static_cast<double>(rows * width);
  if (backward)
    return pass_probe(Pass::swiglu_backward, 5 * element, [=] {
      k::swiglu_backward({out, gate_up, {}});
    });
  return pass_probe(Pass::swiglu, 3 * element, [=] { k::swiglu(gate_up, out); });
}

CpuProbe cross_entropy(std::int64_t rows, std::int64_t vocabulary) {
  const Tensor logits = filled({rows, vocabulary}), nll = filled({rows}), scale = filled({rows});
  const Tensor targets = at::zeros({rows}, at::TensorOptions().dtype(kInt32));
  return pass_probe(Pass::cross_entropy, 8.0 * static_cast<double>(rows * vocabulary), [=] {
    k::cross_entropy({logits, targets, nll, scale, {}});
  });
}

CpuProbe copies(std::int64_t count) {
  const Tensor from = filled({count}), to = filled({count});
  return pass_probe(Pass::copy, 8.0 * static_cast<double>(count), [=] { Tensor(to).copy_(from); });
}

CpuProbe squared_norm(std::int64_t count) {
  const Tensor flat = filled({count}), sum = at::zeros({}, at::TensorOptions().dtype(kFloat64));
  return pass_probe(Pass::grad_norm, 4.0 * static_cast<double>(count),
                    [=] { k::add_squared_norm(flat, sum); });
}

CpuProbe adamw(std::int64_t count, Pass pass) {
  const DType dtype = pass == Pass::adamw ? kFloat32 : kBFloat16;
  const DType moments = pass == Pass::adamw_8bit ? at::kByte : dtype;
  const double bytes = pass == Pass::adamw ? 28 : pass == Pass::adamw_rounded ? 16 : 12;
  k::AdamW args;
  args.param = filled({count}).to(dtype), args.grad = filled({count});
  args.exp_avg = filled({count}).to(moments), args.exp_avg_sq = filled({count}).to(moments);
  if (pass == Pass::adamw_8bit)
    args.exp_avg_scales = args.exp_avg_sq_scales = filled({k::num_code_blocks(count)});
  args.learning_rate = 1e-5, args.weight_decay = 0.01;
  args.grad_scale = filled({});
  args.applied_steps = at::zeros({}, at::TensorOptions().dtype(kInt64));
  args.apply = at::ones({}, at::TensorOptions().dtype(kInt32));
  return pass_probe(pass, bytes * static_cast<double>(count), [=] { k::adamw(args); });
}

}  // namespace

std::vector<MakeProbe> cpu_probes() {
  std::vector<MakeProbe> all;
  for (const std::int64_t rank : {8, 32}) all.push_back([=] { return products(512, 512, rank); });
  all.push_back([] { return products(512, 128, 384); });
  all.push_back([] { return products(512, 512, 1536); });
  for (const std::int64_t span : {64, 256, 1024})
    for (const bool backward : {false, true})
      all.push_back([=] { return attention(span, backward); });
  for (const bool backward : {false, true}) {
    all.push_back([=] { return norm(256, 128, backward); });
    all.push_back([=] { return norm(1024, 512, backward); });
    all.push_back([=] { return swiglu(256, 352, backward); });
    all.push_back([=] { return swiglu(1024, 1536, backward); });
    for (const bool norm : {false, true}) {
      all.push_back([=] { return rotation(64, norm, backward); });
      all.push_back([=] { return rotation(1024, norm, backward); });
    }
  }
  all.push_back([] { return cross_entropy(256, 512); });
  all.push_back([] { return cross_entropy(256, 32000); });
  for (const std::int64_t count : {1 << 17, 1 << 23}) {
    all.push_back([=] { return copies(count); });
    all.push_back([=] { return squared_norm(count); });
    all.push_back([=] { return adamw(count, Pass::adamw); });
  }
  for (const Pass pass : {Pass::adamw_rounded, Pass::adamw_8bit})
    all.push_back([=] { return adamw(1 << 18, pass); });
  return all;
}

}  // namespace wmtp::run
