// N tokens, E head features, F = E / 2 frequencies; heads of a row: h query, g key, g value.
#include "wmtp/kernels/rope.h"

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {
namespace {

template <class T>
void rotate(T* head, const T* cos, const T* sin, int half) {
  for (int j = 0; j < half; ++j) {
    const T first = head[j], second = head[j + half];
    head[j] = first * cos[j] - second * sin[j];
    head[j + half] = second * cos[j] + first * sin[j];
  }
}

// The transpose of rotate: dhead_out may be dhead.
template <class T>
void rotate_back(const T* dhead, T* dhead_out, const T* cos, const T* sin, int half) {
  for (int j = 0; j < half; ++j) {
    const T first = dhead[j], second = dhead[j + half];
    dhead_out[j] = first * cos[j] + second * sin[j];
    dhead_out[j + half] = second * cos[j] - first * sin[j];
  }
}

// Backward of the q/k norm of one head, in place: dhead holds the gradient of the norm's output.
template <class T>
void norm_back(T* dhead, const T* head, T rstd, const T* weight, int size) {
  T mean = 0;
  for (int e = 0; e < size; ++e) mean += dhead[e] * weight[e] * head[e] * rstd;
  mean /= static_cast<T>(size);
  for (int e = 0; e < size; ++e) dhead[e] = rstd * (dhead[e] * weight[e] - head[e] * rstd * mean);
}

// dweight += the sum over tokens and the heads of one kind, in that order.
template <class T>
void add_weight_grad(const RopeBackward& args, const Tensor& dhead_NHE, int first_head,
                     const Tensor& dweight_E) {
  if (!dweight_E.defined()) return;
  const Rows<T> cos(args.table.cos_NF), sin(args.table.sin_NF), qkv(args.qkv_NC),
      rstd(args.qk_rstd);
  const Heads<T> dhead(dhead_NHE);
  const int size = args.heads.head_dim;
  std::vector<T> straight(size);
  T* dweight = dweight_E.data_ptr<T>();
  for (std::int64_t n = 0; n < qkv.rows; ++n)
    for (int i = 0; i < dhead_NHE.size(1); ++i) {
      rotate_back<T>(dhead.at(n, i), straight.data(), cos[n], sin[n], size / 2);
      const T* head = qkv[n] + (first_head + i) * size;
      for (int e = 0; e < size; ++e) dweight[e] += straight[e] * head[e] * rstd[n][first_head + i];
    }
}

}  // namespace

template <class T>
void rope(const Rope& args) {
  const Rows<T> cos(args.table.cos_NF), sin(args.table.sin_NF), qkv(args.qkv_NC), out(args.qk_out),
      rstd(args.qk_rstd);
  const int size = args.heads.head_dim, num_q = args.heads.num_heads;
  const int num_rotated = num_q + args.heads.num_kv_heads;
  const T* q_weight = data_or_null<T>(args.q_weight_E);
  const T* k_weight = data_or_null<T>(args.k_weight_E);
  const auto token = [&](std::int64_t n) {
    for (int i = 0; i < num_rotated; ++i) {
      T* head = qkv[n] + i * size;
      if (q_weight) {
        const T* weight = i < num_q ? q_weight : k_weight;
        T* normalised = out[n] + i * size;
        T squares = 0;
        for (int e = 0; e < size; ++e) squares += head[e] * head[e];
        rstd[n][i] = 1 / std::sqrt(squares / static_cast<T>(size) + static_cast<T>(args.eps));
        for (int e = 0; e < size; ++e) normalised[e] = head[e] * rstd[n][i] * weight[e];
        head = normalised;
      }
      rotate(head, cos[n], sin[n], size / 2);
    }
  };
  parallel_for(qkv.rows, grain_of(num_rotated * size), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) token(n);
  });
}

template <class T>
void rope_backward(const RopeBackward& args) {
  const Rows<T> cos(args.table.cos_NF), sin(args.table.sin_NF), qkv(args.qkv_NC),
      rstd(args.qk_rstd), dqkv(args.dqkv_NC);
  const Heads<T> dq(args.dq_NHE), dk(args.dk_NGE), dv(args.dv_NGE);
  const int size = args.heads.head_dim, num_q = args.heads.num_heads;
  const int num_kv = args.heads.num_kv_heads;
  const T* q_weight = data_or_null<T>(args.q_weight_E);
  const T* k_weight = data_or_null<T>(args.k_weight_E);
  add_weight_grad<T>(args, args.dq_NHE, 0, args.dq_weight_E);
  add_weight_grad<T>(args, args.dk_NGE, num_q, args.dk_weight_E);
  const auto token = [&](std::int64_t n) {
    for (int i = 0; i < num_q + num_kv; ++i) {
      T* dhead = dqkv[n] + i * size;
      rotate_back<T>(i < num_q ? dq.at(n, i) : dk.at(n, i - num_q), dhead, cos[n], sin[n],
                     size / 2);
      if (q_weight)
        norm_back(dhead, qkv[n] + i * size, rstd[n][i], i < num_q ? q_weight : k_weight, size);
    }
    for (int i = 0; i < num_kv; ++i)
      std::copy_n(dv.at(n, i), size, dqkv[n] + (num_q + num_kv + i) * size);
  };
  parallel_for(dqkv.rows, grain_of(dqkv.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) token(n);
  });
}

template void rope<float>(const Rope&);
template void rope<double>(const Rope&);
template void rope_backward<float>(const RopeBackward&);
template void rope_backward<double>(const RopeBackward&);

}  // namespace wmtp::kernels::cpu
