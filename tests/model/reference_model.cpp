#include "model/reference_model.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/zeros_like.h>

namespace wmtp::test {
namespace {

using kernels::Float8Recipe;

// The numbers that float8 keeps of x, in fp64, with scales of the contracted axis: ATen's own
// conversion, which must be clamped before.
Tensor rounded(const Tensor& x, Float8Recipe recipe, std::int64_t contracted, bool is_grad) {
  const bool rowwise = recipe == Float8Recipe::rowwise, wide = is_grad && !rowwise;
  const double largest = wide ? 57344 : 448;
  const Tensor fp32 = x.detach().to(at::kFloat);
  const Tensor amax = rowwise ? at::amax(fp32.abs(), contracted, true) : at::amax(fp32.abs());
  Tensor scale = amax.to(at::kDouble).clamp_min(1e-12).reciprocal().mul(largest).to(at::kFloat);
  if (rowwise) scale = scale.log2().floor().exp2();
  return fp32.mul(scale)
      .clamp(-largest, largest)
      .to(wide ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn)
      .to(at::kDouble)
      .mul(scale.reciprocal().to(at::kDouble));
}

// x W^T of quantised operands. Its two gradients come from two terms that are zero.
Tensor float8_linear(const Tensor& x, const Tensor& weight, Float8Recipe recipe) {
  Tensor to_x = at::matmul(x, rounded(weight, recipe, 0, false).t());
  Tensor to_weight = at::matmul(rounded(x, recipe, 0, false), weight.t());
  to_x = to_x.sub(to_x.detach());
  to_weight = to_weight.sub(to_weight.detach());
  to_x.register_hook([recipe](const Tensor& dy) { return rounded(dy, recipe, 1, true); });
  to_weight.register_hook([recipe](const Tensor& dy) { return rounded(dy, recipe, 0, true); });
  return at::matmul(rounded(x, recipe, 1, false), rounded(weight, recipe, 1, false).t())
      .add(to_x)
      .add(to_weight);
}

struct Reference {
  const model::ModelConfig& config;
  std::map<std::string, Tensor>& params;
  const ReferenceInput& input;
  std::size_t number = 0;  // of the document

  Tensor norm(const Tensor& x, const std::string& name) const {
    return x.mul(at::rsqrt(x.pow(2).mean(-1, true).add(config.norm_eps))).mul(params.at(name));
  }

  Tensor linear(const Tensor& x, const std::string& name) const {
    return adapted(x, name, at::matmul(x, params.at(name).t()));
  }

  // The outputs of matrices that are one product.
  std::vector<Tensor> linears(const Tensor& x, const std::vector<std::string>& names) const {
    std::vector<Tensor> weights, outputs;
    std::vector<std::int64_t> widths;
    for (const std::string& name : names) {
      weights.push_back(params.at(name));
      widths.push_back(weights.back().size(0));
    }
    const Tensor all = input.float8 == Float8Recipe::off
                           ? at::matmul(x, at::cat(weights, 0).t())
                           : float8_linear(x, at::cat(weights, 0), input.float8);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < names.size(); ++i, at += widths[i - 1])
      outputs.push_back(adapted(x, names[i], all.narrow(1, at, widths[i])));
    return outputs;
  }

  Tensor adapted(const Tensor& x, const std::string& name, const Tensor& y) const {
    const std::string module = name.substr(0, name.rfind('.'));
    const auto a = params.find(module + ".lora_A.weight");
    if (a == params.end()) return y;
    const Tensor seen = input.lora_mask ? x.mul(input.lora_mask(module, number, x.size(1))) : x;
    const Tensor low =
        at::matmul(at::matmul(seen, a->second.t()), params.at(module + ".lora_B.weight").t());
    return y.add(low, input.lora_scale);
  }

  // x: [heads, T, e], half-split pairs.
  Tensor rotate(const Tensor& x) const {
    const std::int64_t half = config.head_dim / 2;
    const Tensor inv_freq = at::tensor(model::inv_freq(config), at::kFloat).to(x.scalar_type());
    const Tensor angle = at::outer(at::arange(x.size(1), x.options()), inv_freq);
    const Tensor a = x.slice(2, 0, half), b = x.slice(2, half);
    return at::cat(
        {a.mul(angle.cos()).sub(b.mul(angle.sin())), b.mul(angle.cos()).add(a.mul(angle.sin()))},
        2);
  }

  Tensor heads_of(const Tensor& x, std::int64_t count) const {
    return x.reshape({x.size(0), count, config.head_dim}).transpose(0, 1);
  }

  // `rows` (undefined: all) are those that go on after the attention.
  Tensor block(const Tensor& x, const std::string& prefix, const Tensor& rows = {}) const {
    const Tensor a = norm(x, prefix + "input_layernorm.weight");
    const auto qkv =
        linears(a, {prefix + "self_attn.q_proj.weight", prefix + "self_attn.k_proj.weight",
                    prefix + "self_attn.v_proj.weight"});
    Tensor q = heads_of(qkv[0], config.num_heads);
    Tensor k = heads_of(qkv[1], config.num_kv_heads);
    Tensor v = heads_of(qkv[2], config.num_kv_heads);
    if (config.qk_norm) {
      q = norm(q, prefix + "self_attn.q_norm.weight");
      k = norm(k, prefix + "self_attn.k_norm.weight");
    }
    q = rotate(q);
    const std::int64_t group = config.num_heads / config.num_kv_heads;
    k = rotate(k).repeat_interleave(group, 0);
    v = v.repeat_interleave(group, 0);
    const std::int64_t length = x.size(0);
    const Tensor mask = at::full({length, length}, -1e300, x.options()).triu(1);
    const Tensor scores = at::matmul(q, k.transpose(1, 2))
                              .div(std::sqrt(static_cast<double>(config.head_dim)))
                              .add(mask);
    auto needed = [&](const Tensor& all) {
      return rows.defined() ? all.index_select(0, rows) : all;
    };
    const Tensor o =
        needed(at::matmul(at::softmax(scores, -1), v).transpose(0, 1).reshape({length, -1}));
    const Tensor mid = needed(x).add(linears(o, {prefix + "self_attn.o_proj.weight"})[0]);
    const Tensor m = norm(mid, prefix + "post_attention_layernorm.weight");
    const auto gate_up =
        linears(m, {prefix + "mlp.gate_proj.weight", prefix + "mlp.up_proj.weight"});
    const Tensor product = at::silu(gate_up[0]).mul(gate_up[1]);
    return mid.add(linears(product, {prefix + "mlp.down_proj.weight"})[0]);
  }

  std::string head_prefix(std::int64_t head) const {
    return head == 0 ? "model.layers." + std::to_string(config.num_trunk_blocks()) + "."
                     : "model.extra_heads." + std::to_string(head - 1) + ".";
  }

  // The logits of a head whose block has only its own rows lie at those rows, with float8, whose
  // scales depend on them.
  Tensor head_of(const Tensor& x, std::int64_t head) const {
    if (config.n_future == 1) return x;
    if (input.float8 == Float8Recipe::off) return block(x, head_prefix(head));
    const Tensor rows = at::tensor(input.rows[static_cast<std::size_t>(head)], at::kLong);
    const Tensor h = block(x, head_prefix(head), rows);
    return at::zeros_like(x).index_copy(0, rows, h);
  }

  // Per head the logits of all tokens of one document.
  std::vector<Tensor> document(const Tensor& ids) const {
    Tensor x = params.at("model.embed_tokens.weight").index_select(0, ids);
    for (std::int64_t i = 0; i < config.num_trunk_blocks(); ++i)
      x = block(x, "model.layers." + std::to_string(i) + ".");
    std::vector<Tensor> logits;
    for (std::int64_t head = 0; head < config.n_future; ++head) {
      logits.push_back(linear(norm(head_of(x, head), "model.norm.weight"),
                              config.tied ? "model.embed_tokens.weight" : "lm_head.weight"));
    }
    return logits;
  }
};

}  // namespace

ReferenceResult reference_run(const model::ModelConfig& config,
                              std::map<std::string, Tensor> params, const ReferenceInput& input) {
  for (auto& [name, param] : params) param = param.detach().clone().requires_grad_(true);
  Reference reference{config, params, input};
  std::vector<std::vector<Tensor>> pieces(static_cast<std::size_t>(config.n_future));
  for (std::size_t d = 0; d + 1 < input.doc_start.size(); ++d) {
    const std::vector<std::int64_t> ids(input.tokens.begin() + input.doc_start[d],
                                        input.tokens.begin() + input.doc_start[d + 1]);
    reference.number = d;
    const auto logits = reference.document(at::tensor(ids, at::kLong));
    for (std::size_t head = 0; head < logits.size(); ++head) pieces[head].push_back(logits[head]);
  }
  ReferenceResult result;
  for (std::size_t head = 0; head < pieces.size(); ++head) {
    const Tensor rows = at::tensor(input.rows[head], at::kLong),
                 targets = at::tensor(input.targets[head], at::kLong);
    const Tensor logits = at::cat(pieces[head], 0).index_select(0, rows);
    const Tensor nll = at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).squeeze(1).neg();
    const Tensor part = nll.mul(input.scales[head].to(nll.scalar_type())).sum();
    result.loss = result.loss.defined() ? result.loss.add(part) : part;
    result.logits.push_back(logits.detach());
    result.nll.push_back(nll.detach());
  }
  result.loss.backward();
  for (auto& [name, param] : params) result.grads[name] = param.grad();
  return result;
}

}  // namespace wmtp::test
