#include "model/reference_model.h"

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
#include <ATen/ops/zeros.h>

namespace wmtp::test {
namespace {

struct Reference {
  const model::ModelConfig& config;
  std::map<std::string, Tensor>& params;
  const ReferenceInput& input;
  std::size_t number = 0;  // of the document

  Tensor norm(const Tensor& x, const std::string& name) const {
    return x.mul(at::rsqrt(x.pow(2).mean(-1, true).add(config.norm_eps))).mul(params.at(name));
  }

  Tensor linear(const Tensor& x, const std::string& name) const {
    const Tensor y = at::matmul(x, params.at(name).t());
    const std::string module = name.substr(0, name.rfind('.'));
    const auto a = params.find(module + ".lora_A.weight");
    if (a == params.end()) return y;
    const Tensor seen = input.lora_mask ? x.mul(input.lora_mask(module, number, x.size(1))) : x;
    const Tensor low =
        at::matmul(at::matmul(seen, a->second.t()), params.at(module + ".lora_B.weight").t());
    return y.add(low, input.lora_scale(module));
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
    return x.view({x.size(0), count, config.head_dim}).transpose(0, 1);
  }

  Tensor block(const Tensor& x, const std::string& prefix) const {
    const Tensor a = norm(x, prefix + "input_layernorm.weight");
    Tensor q = heads_of(linear(a, prefix + "self_attn.q_proj.weight"), config.num_heads);
    Tensor k = heads_of(linear(a, prefix + "self_attn.k_proj.weight"), config.num_kv_heads);
    Tensor v = heads_of(linear(a, prefix + "self_attn.v_proj.weight"), config.num_kv_heads);
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
    const Tensor o = at::matmul(at::softmax(scores, -1), v).transpose(0, 1).reshape({length, -1});
    const Tensor mid = x.add(linear(o, prefix + "self_attn.o_proj.weight"));
    const Tensor m = norm(mid, prefix + "post_attention_layernorm.weight");
    const Tensor product = at::silu(linear(m, prefix + "mlp.gate_proj.weight"))
                               .mul(linear(m, prefix + "mlp.up_proj.weight"));
    return mid.add(linear(product, prefix + "mlp.down_proj.weight"));
  }

  std::string head_prefix(std::int64_t head) const {
    return head == 0 ? "model.layers." + std::to_string(config.num_trunk_blocks()) + "."
                     : "model.extra_heads." + std::to_string(head - 1) + ".";
  }

  // Per head the logits of all tokens of one document.
  std::vector<Tensor> document(const Tensor& ids) const {
    Tensor x = params.at("model.embed_tokens.weight").index_select(0, ids);
    for (std::int64_t i = 0; i < config.num_trunk_blocks(); ++i)
      x = block(x, "model.layers." + std::to_string(i) + ".");
    std::vector<Tensor> logits;
    for (std::int64_t head = 0; head < config.n_future; ++head) {
      const Tensor h = config.n_future > 1 ? block(x, head_prefix(head)) : x;
      logits.push_back(linear(norm(h, "model.norm.weight"),
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
