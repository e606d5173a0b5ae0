// N tokens, H query heads, G key/value heads, E head features; B documents of L tokens.
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/kernels/attention_aten.h"
#include "wmtp/kernels/packed/attention.h"

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

GpuHeads gpu_heads(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE) {
  return {fitted(q_NHE), fitted(k_NGE), fitted(v_NGE),
          1 / std::sqrt(static_cast<double>(q_NHE.size(2)))};
}

// The features that were there before fitted().
Tensor trimmed(const Tensor& heads_NHE, std::int64_t features) {
  return heads_NHE.size(2) == features ? heads_NHE : heads_NHE.narrow(2, 0, features);
}

// The second and third extent of a CUDA grid.
constexpr std::int64_t kMostInGrid = 65535;

void check_grid(std::int64_t num_heads, const Documents& documents) {
  const auto num_documents = static_cast<std::int64_t>(documents.start.size()) - 1;
  if (num_heads <= kMostInGrid && num_documents <= kMostInGrid) return;
  throw Error(ErrorKind::config, "kernels",
              fmt::format("attention: {} heads and {} documents in one micro-batch; a GPU takes up "
                          "to {} of each",
                          num_heads, num_documents, kMostInGrid),
              "lower training.batch_size");
}

AttentionResult cudnn_attention(const GpuHeads& heads, const Documents& documents) {
  WMTP_CHECK(documents.uniform, "cuDNN attention: documents of different lengths");
  const auto [out, lse, cum_q, cum_k, max_q, max_k, seed, offset, mask] =
      at::_scaled_dot_product_cudnn_attention(
          batch_of(heads.q_NHE, documents), batch_of(heads.k_NGE, documents),
          batch_of(heads.v_NGE, documents), std::nullopt, true, 0.0, true, false, heads.scale);
  return {as_tokens(out), lse, seed, offset, AttentionChoice::cudnn};
}

AttentionResult flash_attention(const GpuHeads& heads, const Documents& documents) {
  const auto [out_NHE, lse, seed, offset, mask] = at::_flash_attention_forward(
      heads.q_NHE, heads.k_NGE, heads.v_NGE, documents.start_device, documents.start_device,
      documents.max_length, documents.max_length, 0.0, true, false, heads.scale);
  return {out_NHE, lse, seed, offset, AttentionChoice::flash};
}

AttentionResult efficient_attention(const GpuHeads& heads, const Documents& documents) {
  const std::int64_t num_heads = heads.q_NHE.size(1);
  const auto [out_1NHE, lse, seed, offset, max_q, max_k] = at::_efficient_attention_forward(
      heads.q_NHE.unsqueeze(0), repeated(heads.k_NGE, num_heads), repeated(heads.v_NGE, num_heads),
      std::nullopt, documents.start_device, documents.start_device, documents.max_length,
      documents.max_length, 0.0, kCausal, true, heads.scale);
  return {out_1NHE.squeeze(0), lse, seed, offset, AttentionChoice::efficient};
}

AttentionGrads cudnn_attention_backward(const GpuHeads& heads, const GpuOutput& output) {
  const Documents& documents = output.documents;
  const AttentionResult& forward = output.forward;
  const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
      batch_of(output.dout_NHE, documents), batch_of(heads.q_NHE, documents),
      batch_of(heads.k_NGE, documents), batch_of(heads.v_NGE, documents),
      batch_of(output.out_NHE, documents), forward.lse, forward.rng0, forward.rng1, Tensor(),
      Tensor(), Tensor(), documents.max_length, documents.max_length, 0.0, true, heads.scale);
  return {as_tokens(dq), as_tokens(dk), as_tokens(dv)};
}

AttentionGrads flash_attention_backward(const GpuHeads& heads, const GpuOutput& output) {
  const Documents& documents = output.documents;
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      output.dout_NHE, heads.q_NHE, heads.k_NGE, heads.v_NGE, output.out_NHE, output.forward.lse,
      documents.start_device, documents.start_device, documents.max_length, documents.max_length,
      0.0, true, output.forward.rng0, output.forward.rng1, heads.scale);
  return {dq, dk, dv};
}

AttentionGrads efficient_attention_backward(const GpuHeads& heads, const GpuOutput& output) {
  const Documents& documents = output.documents;
  const std::int64_t num_heads = heads.q_NHE.size(1), num_groups = heads.k_NGE.size(1);
  const auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      output.dout_NHE.unsqueeze(0), heads.q_NHE.unsqueeze(0), repeated(heads.k_NGE, num_heads),
      repeated(heads.v_NGE, num_heads), std::nullopt, output.out_NHE.unsqueeze(0),
      documents.start_device, documents.start_device, documents.max_length, documents.max_length,
      output.forward.lse, 0.0, output.forward.rng0, output.forward.rng1, kCausal, false,
      heads.scale);
  return {dq.squeeze(0), gathered(dk, num_groups), gathered(dv, num_groups)};
}

}  // namespace

Tensor fitted(const Tensor& heads_NHE) {
  const std::int64_t per_16_bytes = 16 / static_cast<std::int64_t>(heads_NHE.element_size());
  const std::int64_t features = heads_NHE.size(2);
  const std::int64_t wanted = (features + per_16_bytes - 1) / per_16_bytes * per_16_bytes;
  const bool aligned = reinterpret_cast<std::uintptr_t>(heads_NHE.data_ptr()) % 16 == 0 &&
                       heads_NHE.stride(0) % per_16_bytes == 0 &&
                       heads_NHE.stride(1) % per_16_bytes == 0;
  if (wanted == features && aligned) return heads_NHE;
  Tensor copy_NHE = at::zeros({heads_NHE.size(0), heads_NHE.size(1), wanted}, heads_NHE.options());
  copy_NHE.narrow(2, 0, features).copy_(heads_NHE);
  return copy_NHE;
}

AttentionResult gpu_attention(AttentionChoice choice, const Tensor& q_NHE, const Tensor& k_NGE,
                              const Tensor& v_NGE, const Documents& documents) {
  check_grid(q_NHE.size(1), documents);
  const GpuHeads heads = gpu_heads(q_NHE, k_NGE, v_NGE);
  AttentionResult result =
      choice == AttentionChoice::efficient      ? efficient_attention(heads, documents)
      : choice == AttentionChoice::cudnn        ? cudnn_attention(heads, documents)
      : choice == AttentionChoice::cudnn_packed ? packed_attention(heads, documents)
                                                : flash_attention(heads, documents);
  result.out_NHE = trimmed(result.out_NHE, q_NHE.size(2)).contiguous();
  return result;
}

AttentionGrads gpu_attention_backward(const AttentionBackward& args) {
  const GpuHeads heads = gpu_heads(args.q_NHE, args.k_NGE, args.v_NGE);
  const GpuOutput output{fitted(args.forward->out_NHE), fitted(args.dout_NHE), *args.forward,
                         *args.documents, args.options.deterministic};
  const DeterministicScope scope(args.options.deterministic);
  const AttentionChoice used = args.forward->used;
  const AttentionGrads grads =
      used == AttentionChoice::efficient      ? efficient_attention_backward(heads, output)
      : used == AttentionChoice::cudnn        ? cudnn_attention_backward(heads, output)
      : used == AttentionChoice::cudnn_packed ? packed_attention_backward(heads, output)
                                              : flash_attention_backward(heads, output);
  const std::int64_t features = args.q_NHE.size(2);
  return {trimmed(grads.dq_NHE, features), trimmed(grads.dk_NGE, features),
          trimmed(grads.dv_NGE, features)};
}

}  // namespace wmtp::kernels
