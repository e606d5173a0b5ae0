#include "emulated_gpu/device/attention_math.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace wmtp::emulated {
namespace {

Tensor masked_scores(const Heads& heads, double scale) {
  const std::int64_t length = heads.q.size(1);
  const Tensor later = at::ones({length, length}, at::kBool).triu(1);
  return (at::bmm(heads.q, heads.k.transpose(1, 2)) * scale).masked_fill(later, -INFINITY);
}

// dq = ds k.
Tensor sum_over_keys(const Tensor& ds, const Tensor& k, bool in_order) {
  static std::mt19937 draw(std::random_device{}());
  std::vector<std::int64_t> keys(static_cast<std::size_t>(k.size(1)));
  std::iota(keys.begin(), keys.end(), 0);
  if (!in_order) std::shuffle(keys.begin(), keys.end(), draw);
  Tensor dq = at::zeros_like(k);
  for (const std::int64_t key : keys)
    dq.addcmul_(ds.slice(2, key, key + 1), k.slice(1, key, key + 1));
  return dq;
}

}  // namespace

Forward attend(const Heads& heads, double scale) {
  const Tensor scores = masked_scores(heads, scale);
  return {at::bmm(scores.softmax(-1), heads.v), scores.logsumexp(-1)};
}

Heads attend_backward(const Heads& heads, const Forward& forward, const Tensor& dout, double scale,
                      bool in_order) {
  const Tensor p = (masked_scores(heads, scale) - forward.lse.unsqueeze(-1)).exp();
  const Tensor delta = (dout * forward.out).sum(-1, true);
  const Tensor ds = p * (at::bmm(dout, heads.v.transpose(1, 2)) - delta) * scale;
  return {sum_over_keys(ds, heads.k, in_order), at::bmm(ds.transpose(1, 2), heads.q),
          at::bmm(p.transpose(1, 2), dout)};
}

Tensor document(const Tensor& tokens_NHE, std::int64_t first, std::int64_t last,
                std::int64_t num_heads) {
  const Tensor wide = tokens_NHE.slice(0, first, last).to(at::kFloat).transpose(0, 1);
  return wide.repeat_interleave(num_heads / wide.size(0), 0).contiguous();
}

void write_document(const Tensor& to_NHE, std::int64_t first, const Tensor& heads_HLE) {
  const std::int64_t groups = to_NHE.size(1), share = heads_HLE.size(0) / groups;
  to_NHE.slice(0, first, first + heads_HLE.size(1))
      .copy_(heads_HLE.unflatten(0, {groups, share}).sum(1).transpose(0, 1));
}

}  // namespace wmtp::emulated
