// Part of bodies.h. r = 1 / sqrt(mean(x^2) + eps); out = x r w, and its backward.

WMTP_INLINE float sum_of_squares(const float* x, std::int64_t size) {
  Vec even{}, odd{};
  std::int64_t d = 0;
  for (; d + 2 * kLanes <= size; d += 2 * kLanes) {
    const Vec a = load(x + d), b = load(x + d + kLanes);
    even += a * a;
    odd += b * b;
  }
  for (; d + kLanes <= size; d += kLanes) even += load(x + d) * load(x + d);
  if (d < size) {
    const Vec a = load_some(x + d, size - d);
    odd += a * a;
  }
  return sum_of(even + odd);
}

WMTP_INLINE float rstd_of(const float* x, std::int64_t size, float eps) {
  return 1.0f / __builtin_sqrtf(sum_of_squares(x, size) / static_cast<float>(size) + eps);
}

// out = x * factor * weight
WMTP_INLINE void scale_by(const float* x, float factor, const float* weight, float* out,
                          std::int64_t size) {
  std::int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) store(out + d, load(x + d) * factor * load(weight + d));
  for (; d < size; ++d) out[d] = x[d] * factor * weight[d];
}

WMTP_INLINE void add_rows(const float* a, const float* b, float* sum, std::int64_t size) {
  std::int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) store(sum + d, load(a + d) + load(b + d));
  for (; d < size; ++d) sum[d] = a[d] + b[d];
}

void rms_norm(const NormRows& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const float* x = a.x + n * a.x_stride;
    if (a.delta) {
      float* sum = a.sum + n * a.sum_stride;
      add_rows(x, a.delta + n * a.delta_stride, sum, a.num_features);
      x = sum;
    }
    a.rstd[n] = rstd_of(x, a.num_features, a.eps);
    scale_by(x, a.rstd[n], a.weight, a.out + n * a.out_stride, a.num_features);
  }
}

// sum of dout w x
WMTP_INLINE float weighted_dot(const float* dout, const float* weight, const float* x,
                               std::int64_t size) {
  Vec sum{};
  std::int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) sum += load(dout + d) * load(weight + d) * load(x + d);
  if (d < size)
    sum += load_some(dout + d, size - d) * load_some(weight + d, size - d) *
           load_some(x + d, size - d);
  return sum_of(sum);
}

// dx (+)= rstd (dout w - x rstd mean), mean = rstd * weighted_dot / size; dweight += dout x rstd.
template <bool kAdd>
WMTP_INLINE void norm_row_back(const float* dout, const float* x, float rstd, const float* weight,
                               float* dx, float* dweight, std::int64_t size) {
  const float mean = weighted_dot(dout, weight, x, size) * rstd / static_cast<float>(size);
  const float back = rstd * rstd * mean;
  std::int64_t d = 0;
  for (; d + kLanes <= size; d += kLanes) {
    const Vec g = load(dout + d), in = load(x + d);
    if (dweight) store(dweight + d, load(dweight + d) + g * in * rstd);
    const Vec change = g * load(weight + d) * rstd - in * back;
    store(dx + d, kAdd ? load(dx + d) + change : change);
  }
  for (; d < size; ++d) {
    const float g = dout[d], in = x[d];
    if (dweight) dweight[d] += g * in * rstd;
    const float change = g * weight[d] * rstd - in * back;
    dx[d] = kAdd ? dx[d] + change : change;
  }
}

void rms_norm_backward(const NormBackwardRows& a, std::int64_t begin, std::int64_t end,
                       float* dweight) {
  if (dweight) __builtin_memset(dweight, 0, sizeof(float) * a.num_features);
  for (std::int64_t n = begin; n < end; ++n)
    norm_row_back<true>(a.dout + n * a.dout_stride, a.x + n * a.x_stride, a.rstd[n], a.weight,
                        a.dx + n * a.dx_stride, dweight, a.num_features);
}
