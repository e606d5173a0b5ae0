// N tokens, H query heads, G key/value heads, E head features; B documents of L tokens.
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/attention_aten.h"

namespace wmtp::kernels {
namespace {

// Torch's flag for deterministic kernels, for the length of a scope.
class DeterministicScope {
 public:
  explicit DeterministicScope(bool on)
      : before_(at::globalContext().deterministicAlgorithms()),
        warn_only_(at::globalContext().deterministicAlgorithmsWarnOnly()) {
    at::globalContext().setDeterministicAlgorithms(on, warn_only_);
  }
  ~DeterministicScope() { at::globalContext().setDeterministicAlgorithms(before_, warn_only_); }
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool before_, warn_only_;
};

Tensor batch_of(const Tensor& heads_NHE, const Documents& documents) {
  return as_batch(heads_NHE, 0, heads_NHE.size(0) / documents.max_length, documents.max_length);
}

// [B, H, L, E] as a kernel returned it -> [N, H, E]; no copy where the tokens lie outside the
// heads.
Tensor as_tokens(const Tensor& heads_BHLE) {
  return heads_BHLE.transpose(1, 2).contiguous().flatten(0, 1);
}

constexpr std::int64_t kCausal = 1;  // of the efficient kernel's mask types

// [n, g, e] -> [1, n, h, e], each key/value head beside the query heads that read it.
Tensor repeated(const Tensor& heads_NGE, std::int64_t num_heads) {
  const std::int64_t share = num_heads / heads_NGE.size(1);
  return (share == 1 ? heads_NGE : heads_NGE.repeat_interleave(share, 1)).unsqueeze(0);
}

// The transpose of repeated.
Tensor gathered(const Tensor& heads_1NHE, std::int64_t num_groups) {
  const Tensor heads_NHE = heads_1NHE.squeeze(0);
  const std::int64_t share = heads_NHE.size(1) / num_groups;
  return share == 1 ? heads_NHE : heads_NHE.unflatten(1, {num_groups, share}).sum(2);
}

}  // namespace

AttentionResult cudnn_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                const Documents& documents) {
  WMTP_CHECK(documents.uniform, "cuDNN attention: documents of different lengths");
  const auto [out, lse, cum_q, cum_k, max_q, max_k, seed, offset, mask] =
      at::_scaled_dot_product_cudnn_attention(
          batch_of(q_NHE, documents), batch_of(k_NGE, documents), batch_of(v_NGE, documents),
          std::nullopt, true, 0.0, true);
  return {as_tokens(out), lse, seed, offset, AttentionChoice::cudnn};
}

AttentionGrads cudnn_attention_backward(const AttentionBackward& args) {
  const Documents& documents = *args.documents;
  const AttentionResult& forward = *args.forward;
  const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      batch_of(args.dout_NHE, documents), batch_of(args.q_NHE, documents),
      batch_of(args.k_NGE, documents), batch_of(args.v_NGE, documents),
      batch_of(forward.out_NHE, documents), forward.lse, forward.rng0, forward.rng1, Tensor(),
      Tensor(), Tensor(), documents.max_length, documents.max_length, 0.0, true);
  return {as_tokens(dq), as_tokens(dk), as_tokens(dv)};
}

AttentionResult flash_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                const Documents& documents) {
  const auto [out_NHE, lse, seed, offset, mask] = at::_flash_attention_forward(
      q_NHE, k_NGE, v_NGE, documents.start_device, documents.start_device, documents.max_length,
      documents.max_length, 0.0, true, false);
  return {out_NHE, lse, seed, offset, AttentionChoice::flash};
}

AttentionGrads flash_attention_backward(const AttentionBackward& args) {
  const Documents& documents = *args.documents;
  const AttentionResult& forward = *args.forward;
  const DeterministicScope scope(args.options.deterministic);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      args.dout_NHE, args.q_NHE, args.k_NGE, args.v_NGE, forward.out_NHE, forward.lse,
      documents.start_device, documents.start_device, documents.max_length, documents.max_length,
      0.0, true, forward.rng0, forward.rng1);
  return {dq, dk, dv};
}

AttentionResult efficient_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                    const Documents& documents) {
  const std::int64_t num_heads = q_NHE.size(1);
  const auto [out_1NHE, lse, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      q_NHE.unsqueeze(0), repeated(k_NGE, num_heads), repeated(v_NGE, num_heads), std::nullopt,
      documents.start_device, documents.start_device, documents.max_length, documents.max_length,
      0.0, kCausal, true);
  return {out_1NHE.squeeze(0), lse, seed, offset, AttentionChoice::efficient};
}

AttentionGrads efficient_attention_backward(const AttentionBackward& args) {
  const Documents& documents = *args.documents;
  const AttentionResult& forward = *args.forward;
  const std::int64_t num_heads = args.q_NHE.size(1), num_groups = args.k_NGE.size(1);
  const DeterministicScope scope(args.options.deterministic);
  const auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      args.dout_NHE.unsqueeze(0), args.q_NHE.unsqueeze(0), repeated(args.k_NGE, num_heads),
      repeated(args.v_NGE, num_heads), std::nullopt, forward.out_NHE.unsqueeze(0),
      documents.start_device, documents.start_device, documents.max_length, documents.max_length,
      forward.lse, 0.0, forward.rng0, forward.rng1, kCausal, false);
  return {dq.squeeze(0), gathered(dk, num_groups), gathered(dv, num_groups)};
}

}  // namespace wmtp::kernels
