// The attention kernels of LibTorch's CUDA library as plain products: softmax(q k^T scale) v with a
// causal mask, document by document, in fp32. Same arguments, layouts and refusals; the sums are
// grouped otherwise than in the real kernels.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "emulated_gpu/device/attention_math.h"
#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/on_twins.h"

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
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < cumulative.numel(); ++i)
    result.push_back(cumulative[i].item<std::int32_t>());
  return result;
}

// On the host, as all that is computed.
void packed_forward(const Packed& all, const Forward& result) {
  for (std::size_t d = 0; d + 1 < all.start.size(); ++d) {
    if (all.start[d] == all.start[d + 1]) continue;
    const Forward one = attend(all.at(d), all.scale);
    write_document(result.out, all.start[d], one.out);
    result.lse.slice(1, all.start[d], all.start[d + 1]).copy_(one.lse);
  }
}

// lse: [heads, tokens].
void packed_backward(const Packed& all, const Forward& forward, const Tensor& dout, bool in_order,
                     const Heads& grads) {
  const std::int64_t heads = all.q.size(1);
  for (std::size_t d = 0; d + 1 < all.start.size(); ++d) {
    const std::int64_t first = all.start[d], last = all.start[d + 1];
    if (first == last) continue;
    const Forward there{document(forward.out, first, last, heads),
                        forward.lse.slice(1, first, last)};
    const Heads one =
        attend_backward(all.at(d), there, document(dout, first, last, heads), all.scale, in_order);
    write_document(grads.q, first, one.q);
    write_document(grads.k, first, one.k);
    write_document(grads.v, first, one.v);
  }
}

// [n, h, e] of each on the GPU.
Forward documents_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& start,
                          double scale) {
  check_operands(q, k, v);
  TORCH_CHECK(start.scalar_type() == at::kInt, "attention: document starts are not int32");
  const Forward result{at::empty(q.sizes(), q.options()),
                       at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat))};
  on_twins({q, k, v, start, result.out, result.lse}, [scale](const auto& twins) {
    packed_forward({twins[0], twins[1], twins[2], starts(twins[3]), scale}, {twins[4], twins[5]});
  });
  return result;
}

Heads empty_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto like = [](const Tensor& heads) { return at::empty(heads.sizes(), heads.options()); };
  return {like(q), like(k), like(v)};
}

bool in_order() {
  return at::globalContext().deterministicAlgorithms();
}

Heads documents_backward(const Heads& operands, const Tensor& start, const Forward& forward,
                         const Tensor& dout, double scale) {
  const auto& [q, k, v] = operands;
  check_operands(q, k, v);
  const Heads grads = empty_heads(q, k, v);
  on_twins({q, k, v, start, forward.out, forward.lse, dout, grads.q, grads.k, grads.v},
           [scale, ordered = in_order()](const auto& twins) {
             packed_backward({twins[0], twins[1], twins[2], starts(twins[3]), scale},
                             {twins[4], twins[5]}, twins[6], ordered,
                             {twins[7], twins[8], twins[9]});
           });
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
  const Forward done = documents_forward(q, k, v, *start_q, *scale);
  return {done.out, done.lse, nothing(), nothing(), nothing()};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
    const Tensor& lse, const Tensor& start_q, const Tensor&, c10::SymInt, c10::SymInt, double, bool,
    const Tensor&, const Tensor&, std::optional<double> scale, OptionalSize, OptionalSize) {
  const Heads grads = documents_backward({q, k, v}, start_q, {out, lse}, dout, *scale);
  return {grads.q, grads.k, grads.v};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt> efficient_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&,
    const OptionalTensor& start_q, const OptionalTensor&, OptionalSize max_q, OptionalSize max_k,
    double, std::int64_t, bool, std::optional<double> scale, const OptionalTensor&,
    std::optional<std::int64_t>) {
  const Forward done =
      documents_forward(q.squeeze(0), k.squeeze(0), v.squeeze(0), *start_q, *scale);
  return {done.out.unsqueeze(0), done.lse,         nothing(), nothing(),
          max_q.value_or(0),     max_k.value_or(0)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&,
    const Tensor& out, const OptionalTensor& start_q, const OptionalTensor&, c10::SymInt,
    c10::SymInt, const Tensor& lse, double, const Tensor&, const Tensor&, std::int64_t, bool,
    std::optional<double> scale, std::optional<std::int64_t>, std::optional<std::int64_t>, bool) {
  const Heads grads = documents_backward({q.squeeze(0), k.squeeze(0), v.squeeze(0)}, *start_q,
                                         {out.squeeze(0), lse}, dout.squeeze(0), *scale);
  return {grads.q.unsqueeze(0), grads.k.unsqueeze(0), grads.v.unsqueeze(0), nothing()};
}

// [b, h, l, e] -> [b l, h, e], as documents of one length. On the host.
Tensor tokens(const Tensor& heads) {
  return heads.transpose(1, 2).flatten(0, 1);
}

Packed batched(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  Packed all{tokens(q), tokens(k), tokens(v), {0}, scale};
  for (std::int64_t b = 0; b < q.size(0); ++b) all.start.push_back(all.start.back() + q.size(2));
  return all;
}

// On the GPU, where the tokens lie outside of the heads.
Tensor empty_batch(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options())
      .transpose(1, 2);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
cudnn_forward(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor&, bool,
              double, bool causal, bool, std::optional<double> scale) {
  TORCH_CHECK(causal && scale && q.size(2) > 1 && q.size(3) <= 128 && q.scalar_type() != at::kFloat,
              "cuDNN attention: not what the kernel takes");
  check_operands(q, k, v);
  const Tensor out = empty_batch(q),
               lse = at::empty({q.size(0), q.size(1), q.size(2), 1}, q.options().dtype(at::kFloat));
  on_twins({q, k, v, out, lse}, [scale = *scale](const auto& twins) {
    const Tensor &q = twins[0], lse_HN = at::empty({q.size(1), q.size(0) * q.size(2)}, at::kFloat);
    packed_forward(batched(q, twins[1], twins[2], scale), {tokens(twins[3]), lse_HN});
    twins[4].copy_(lse_HN.unflatten(1, {q.size(0), q.size(2)}).transpose(0, 1).unsqueeze(-1));
  });
  return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), nothing(), nothing(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(
    const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
    const Tensor& lse, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
    c10::SymInt, c10::SymInt, double, bool, std::optional<double> scale) {
  check_operands(q, k, v);
  const Tensor dq = empty_batch(q), dk = empty_batch(k), dv = empty_batch(v);
  on_twins({q, k, v, out, lse, dout, dq, dk, dv},
           [scale = *scale, ordered = in_order()](const auto& twins) {
             const Tensor lse_HN = twins[4].squeeze(-1).transpose(0, 1).flatten(1, 2);
             packed_backward(batched(twins[0], twins[1], twins[2], scale),
                             {tokens(twins[3]), lse_HN}, tokens(twins[5]), ordered,
                             {tokens(twins[6]), tokens(twins[7]), tokens(twins[8])});
           });
  return {dq, dk, dv};
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
