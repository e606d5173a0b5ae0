// N tokens, H query heads, G key/value heads, E head features.
#include "wmtp/kernels/attention.h"

#include <ATen/ops/zeros_like.h>

#include <limits>

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

template <class T>
T dot(const T* a, const T* b, std::int64_t size) {
  T sum = 0;
  for (std::int64_t e = 0; e < size; ++e) sum += a[e] * b[e];
  return sum;
}

template <class T>
void add_scaled(T* sum, T factor, const T* term, std::int64_t size) {
  for (std::int64_t e = 0; e < size; ++e) sum[e] += factor * term[e];
}

}  // namespace

template <class T>
AttentionResult attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                          const Documents& documents) {
  const std::int64_t tokens = q_NHE.size(0), num_q = q_NHE.size(1), size = q_NHE.size(2);
  const std::int64_t num_kv = k_NGE.size(1);
  const T scale = 1 / std::sqrt(static_cast<T>(size));
  AttentionResult result;
  result.used = AttentionChoice::reference;
  result.out_NHE = at::empty({tokens, num_q, size}, q_NHE.options());
  result.out_NHE.zero_();
  result.lse = at::empty({tokens, num_q}, q_NHE.options());
  const Heads<T> q(q_NHE), k(k_NGE), v(v_NGE), out(result.out_NHE);
  const Rows<T> lse(result.lse);
  const auto row = [&](std::int64_t first, std::int64_t n, std::int64_t head) {
    const std::int64_t group = head * num_kv / num_q;
    T top = -std::numeric_limits<T>::infinity(), sum = 0;
    for (std::int64_t m = first; m <= n; ++m)
      top = std::max(top, scale * dot(q.at(n, head), k.at(m, group), size));
    for (std::int64_t m = first; m <= n; ++m)
      sum += std::exp(scale * dot(q.at(n, head), k.at(m, group), size) - top);
    lse[n][head] = top + std::log(sum);
    for (std::int64_t m = first; m <= n; ++m)
      add_scaled(out.at(n, head),
                 std::exp(scale * dot(q.at(n, head), k.at(m, group), size) - lse[n][head]),
                 v.at(m, group), size);
  };
  for (std::size_t d = 0; d + 1 < documents.start.size(); ++d)
    parallel_for(num_q, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head)
        for (std::int64_t n = documents.start[d]; n < documents.start[d + 1]; ++n)
          row(documents.start[d], n, head);
    });
  return result;
}

template <class T>
AttentionGrads attention_backward(const AttentionBackward& args) {
  const std::int64_t num_q = args.q_NHE.size(1), size = args.q_NHE.size(2);
  const std::int64_t num_kv = args.k_NGE.size(1), share = num_q / num_kv;
  const T scale = 1 / std::sqrt(static_cast<T>(size));
  AttentionGrads grads{at::zeros_like(args.q_NHE, at::MemoryFormat::Contiguous),
                       at::zeros_like(args.k_NGE, at::MemoryFormat::Contiguous),
                       at::zeros_like(args.v_NGE, at::MemoryFormat::Contiguous)};
  const Heads<T> q(args.q_NHE), k(args.k_NGE), v(args.v_NGE), dout(args.dout_NHE),
      out(args.forward->out_NHE), dq(grads.dq_NHE), dk(grads.dk_NGE), dv(grads.dv_NGE);
  const Rows<T> lse(args.forward->lse);
  const auto row = [&](std::int64_t first, std::int64_t n, std::int64_t head) {
    const std::int64_t group = head / share;
    const T inner = dot(dout.at(n, head), out.at(n, head), size);
    for (std::int64_t m = first; m <= n; ++m) {
      const T p = std::exp(scale * dot(q.at(n, head), k.at(m, group), size) - lse[n][head]);
      const T ds = scale * p * (dot(dout.at(n, head), v.at(m, group), size) - inner);
      add_scaled(dv.at(m, group), p, dout.at(n, head), size);
      add_scaled(dk.at(m, group), ds, q.at(n, head), size);
      add_scaled(dq.at(n, head), ds, k.at(m, group), size);
    }
  };
  // Parts are key/value heads: all that add to one of them do so in one thread, in order.
  const auto& start = args.documents->start;
  for (std::size_t d = 0; d + 1 < start.size(); ++d)
    parallel_for(num_kv, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin * share; head < end * share; ++head)
        for (std::int64_t n = start[d]; n < start[d + 1]; ++n) row(start[d], n, head);
    });
  return grads;
}

template AttentionResult attention<float>(const Tensor&, const Tensor&, const Tensor&,
                                          const Documents&);
template AttentionResult attention<double>(const Tensor&, const Tensor&, const Tensor&,
                                           const Documents&);
template AttentionGrads attention_backward<float>(const AttentionBackward&);
template AttentionGrads attention_backward<double>(const AttentionBackward&);

}  // namespace wmtp::kernels::cpu
