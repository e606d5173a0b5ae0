// Part of bodies.h. Pairs (j, j + half) turn by the table's angle; backward turns back.

template <bool kBack>
WMTP_INLINE void turn(const float* in, float* out, const float* cos, const float* sin, int half) {
  int j = 0;
  for (; j + kLanes <= half; j += kLanes) {
    const Vec first = load(in + j), second = load(in + j + half);
    const Vec c = load(cos + j), s = kBack ? -load(sin + j) : load(sin + j);
    store(out + j, first * c - second * s);
    store(out + j + half, second * c + first * s);
  }
  for (; j < half; ++j) {
    const float first = in[j], second = in[j + half], s = kBack ? -sin[j] : sin[j];
    out[j] = first * cos[j] - second * s;
    out[j + half] = second * cos[j] + first * s;
  }
}

void rope(const RopeRows& a, std::int64_t begin, std::int64_t end) {
  const int half = a.head_dim / 2;
  for (std::int64_t n = begin; n < end; ++n)
    for (int i = 0; i < a.num_q + a.num_kv; ++i) {
      float* head = a.qkv + n * a.qkv_stride + i * a.head_dim;
      if (a.q_weight) {
        float* out = a.out + n * a.out_stride + i * a.head_dim;
        const float rstd = rstd_of(head, a.head_dim, a.eps);
        a.rstd[n * a.rstd_stride + i] = rstd;
        scale_by(head, rstd, i < a.num_q ? a.q_weight : a.k_weight, out, a.head_dim);
        head = out;
      }
      turn<false>(head, head, a.cos + n * a.table_stride, a.sin + n * a.table_stride, half);
    }
}

void rope_backward(const RopeBackwardRows& a, std::int64_t begin, std::int64_t end,
                   float* dqk_weight) {
  const int size = a.head_dim, num_rotated = a.num_q + a.num_kv;
  if (dqk_weight) __builtin_memset(dqk_weight, 0, sizeof(float) * 2 * size);
  for (std::int64_t n = begin; n < end; ++n) {
    float* dqkv = a.dqkv + n * a.dqkv_stride;
    for (int i = 0; i < num_rotated; ++i) {
      const bool is_q = i < a.num_q;
      const float* dhead = is_q ? a.dq + n * a.dq_token + i * a.dq_head
                                : a.dk + n * a.dk_token + (i - a.num_q) * a.dk_head;
      float* out = dqkv + i * size;
      turn<true>(dhead, out, a.cos + n * a.table_stride, a.sin + n * a.table_stride, size / 2);
      if (!a.q_weight) continue;
      float* dweight = dqk_weight ? dqk_weight + (is_q ? 0 : size) : nullptr;
      norm_row_back<false>(out, a.qkv + n * a.qkv_stride + i * size, a.rstd[n * a.rstd_stride + i],
                           is_q ? a.q_weight : a.k_weight, out, dweight, size);
    }
    for (int i = 0; i < a.num_kv; ++i)
      __builtin_memmove(dqkv + (num_rotated + i) * size, a.dv + n * a.dv_token + i * a.dv_head,
                        sizeof(float) * size);
  }
}
