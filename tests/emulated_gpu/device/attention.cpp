// The attention kernels of LibTorch's CUDA library as plain products: softmax(q k^T scale) v with a
// causal mask, document by document, in fp32. Same arguments, layouts and refusals; the sums are
// grouped otherwise than in the real kernels.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "emulated_gpu/device/attention_math.h"
#include "emulated_gpu/device/memory.h"

namespace wmtp::emulated {
namespace {

using OptionalTensor = std::optional<Tensor>;
using OptionalSize = std::optional<c10::SymInt>;

struct Packed {
  Tensor q, k, v;
  std::vector<std::int64_t> start;
  double scale;

  Heads at(std::size_t d) const {
    const std::int64_t heads = q.size(1);
    return {document(q, start[d], start[d + 1], heads), document(k, start[d], start[d + 1], heads),
            document(v, start[d], start[d + 1], heads)};
  }
};

// What the real kernels demand of their operands.
void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor& heads : {q, k, v}) {
    TORCH_CHECK(heads.stride(-1) == 1, "attention: features are not contiguous");
    const auto size = static_cast<std::int64_t>(heads.element_size());
    TORCH_CHECK(heads.size(-1) * size % 16 == 0 &&
                    reinterpret_cast<std::uintptr_t>(heads.data_ptr()) % 16 == 0,
                "attention: heads are not 16-byte aligned");
    for (std::int64_t d = 0; d + 1 < heads.dim(); ++d)
      TORCH_CHECK(heads.size(d) == 1 || heads.stride(d) * size % 16 == 0,
                  "attention: a stride is no multiple of 16 bytes");
  }
}

std::vector<std::int64_t> starts(const Tensor& cumulative) {
  const Tensor host = host_twin(cumulative);
  TORCH_CHECK(host.scalar_type() == at::kInt, "attention: document starts are not int32");
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < host.numel(); ++i) result.push_back(host[i].item<std::int32_t>());
  return result;
}

Packed packed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& cumulative,
              double scale) {
  check_operands(q, k, v);
  return {host_twin(q), host_twin(k), host_twin(v), starts(cumulative), scale};
}

// lse_HN: [heads, tokens].
Forward packed_forward(const Packed& all) {
  Forward result{at::empty(all.q.sizes(), all.q.options()),
                 at::empty({all.q.size(1), all.q.size(0)}, at::kFloat)};
  for (std::size_t d = 0; d + 1 < all.start.size(); ++d) {
    if (all.start[d] == all.start[d + 1]) continue;
    const Forward one = attend(all.at(d), all.scale);
    write_document(result.out, all.start[d], one.out);
    result.lse.slice(1, all.start[d], all.start[d + 1]).copy_(one.lse);
  }
  return result;
}

Heads packed_backward(const Packed& all, const Forward& forward, const Tensor& dout) {
  Heads grads{at::empty(all.q.sizes(), all.q.options()), at::empty(all.k.sizes(), all.k.options()),
              at::empty(all.v.sizes(), all.v.options())};
  const std::int64_t heads = all.q.size(1);
  for (std::size_t d = 0; d + 1 < all.start.size(); ++d) {
    const std::int64_t first = all.start[d], last = all.start[d + 1];
    if (first == last) continue;
    const Forward there{document(forward.out, first, last, heads),
                        forward.lse.slice(1, first, last)};
    const Heads one = attend_backward(all.at(d), there, document(dout, first, last, heads),
                                      all.scale, at::globalContext().deterministicAlgorithms());
    write_document(grads.q, first, one.q);
    write_document(grads.k, first, one.k);
    write_document(grads.v, first, one.v);
  }
  return grads;
}

Tensor nothing() {
  return adopt(at::empty({0}, at::kLong));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& start_q,
    const OptionalTensor&, c10::SymInt, c10::SymInt, double, bool causal, bool,
    std::optional<double> scale, OptionalSize, OptionalSize, const OptionalTensor&,
    const OptionalTensor&) {
  TORCH_CHECK(causal && scale && q.scalar_type() != at::kFloat && q.size(2) <= 256,
              "flash attention: not what the kernel takes");
  const Forward done = packed_forward(packed(q, k, v, *start_q, *scale));
  return {adopt(done.out), adopt(done.lse), nothing(), nothing(), nothing()};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
    const Tensor& lse, const Tensor& start_q, const Tensor&, c10::SymInt, c10::SymInt, double, bool,
    const Tensor&, const Tensor&, std::optional<double> scale, OptionalSize, OptionalSize) {
  const Heads grads = packed_backward(packed(q, k, v, start_q, *scale),
                                      {host_twin(out), host_twin(lse)}, host_twin(dout));
  return {adopt(grads.q), adopt(grads.k), adopt(grads.v)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&,
    const OptionalTensor& start_q, const OptionalTensor&, OptionalSize max_q, OptionalSize max_k,
    double, std::int64_t, bool, std::optional<double> scale, const OptionalTensor&,
    std::optional<std::int64_t>) {
  const Forward done =
      packed_forward(packed(q.squeeze(0), k.squeeze(0), v.squeeze(0), *start_q, *scale));
  return {adopt(done.out.unsqueeze(0)),
          adopt(done.lse),
          nothing(),
          nothing(),
          max_q.value_or(0),
          max_k.value_or(0)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&,
    const Tensor& out, const OptionalTensor& start_q, const OptionalTensor&, c10::SymInt,
    c10::SymInt, const Tensor& lse, double, const Tensor&, const Tensor&, std::int64_t, bool,
    std::optional<double> scale, std::optional<std::int64_t>, std::optional<std::int64_t>, bool) {
  const Heads grads =
      packed_backward(packed(q.squeeze(0), k.squeeze(0), v.squeeze(0), *start_q, *scale),
                      {host_twin(out).squeeze(0), host_twin(lse)}, host_twin(dout).squeeze(0));
  return {adopt(grads.q.unsqueeze(0)), adopt(grads.k.unsqueeze(0)), adopt(grads.v.unsqueeze(0)),
          nothing()};
}

// [b, h, l, e] -> [b l, h, e], as documents of one length.
Packed batched(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  check_operands(q, k, v);
  auto tokens = [](const Tensor& heads) { return host_twin(heads).transpose(1, 2).flatten(0, 1); };
  Packed all{tokens(q), tokens(k), tokens(v), {0}, scale};
  for (std::int64_t b = 0; b < q.size(0); ++b) all.start.push_back(all.start.back() + q.size(2));
  return all;
}

Tensor as_batch(const Tensor& tokens_NHE, const Tensor& like) {
  return adopt(tokens_NHE.contiguous()).unflatten(0, {like.size(0), like.size(2)}).transpose(1, 2);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
cudnn_forward(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&, bool,
              double, bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(causal && scale && q.size(2) > 1 && q.size(3) <= 128 && q.scalar_type() != at::kFloat,
              "cuDNN attention: not what the kernel takes");
  const Forward done = packed_forward(batched(q, k, v, *scale));
  const Tensor lse = done.lse.unflatten(1, {q.size(0), q.size(2)}).transpose(0, 1).contiguous();
  return {as_batch(done.out, q),
          adopt(lse.unsqueeze(-1)),
          Tensor(),
          Tensor(),
          q.size(2),
          k.size(2),
          nothing(),
          nothing(),
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
    const Tensor& lse, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
    c10::SymInt, c10::SymInt, double, bool, std::optional<double> scale) {
  auto tokens = [](const Tensor& heads) { return host_twin(heads).transpose(1, 2).flatten(0, 1); };
  const Tensor lse_HN = host_twin(lse).squeeze(-1).transpose(0, 1).flatten(1, 2);
  const Heads grads =
      packed_backward(batched(q, k, v, *scale), {tokens(out), lse_HN}, tokens(dout));
  return {as_batch(grads.q, q), as_batch(grads.k, k), as_batch(grads.v, v)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_flash_attention_forward", &flash_forward);
  library.impl("_flash_attention_backward", &flash_backward);
  library.impl("_efficient_attention_forward", &efficient_forward);
  library.impl("_efficient_attention_backward", &efficient_backward);
  library.impl("_scaled_dot_product_cudnn_attention", &cudnn_forward);
  library.impl("_scaled_dot_product_cudnn_attention_backward", &cudnn_backward);
}

}  // namespace wmtp::emulated
