// Part of bodies.h. One row of logits is read from memory once: it stays in the second-level cache
// for the passes that follow. One exponential per logit serves both the sum and the gradient.

WMTP_INLINE float row_max(const float* z, std::int64_t size) {
  Vec a = splat(z[0]), b = a, c = a, d = a;
  std::int64_t v = 0;
  for (; v + 4 * kLanes <= size; v += 4 * kLanes) {
    a = larger(load(z + v), a);
    b = larger(load(z + v + kLanes), b);
    c = larger(load(z + v + 2 * kLanes), c);
    d = larger(load(z + v + 3 * kLanes), d);
  }
  for (; v + kLanes <= size; v += kLanes) a = larger(load(z + v), a);
  if (v < size) a = larger(load_some(z + v, size - v, z[0]), a);
  return largest_of(larger(larger(a, b), larger(c, d)));
}

// The sum of e^(z - top); the terms replace z if kKeep.
template <bool kKeep>
WMTP_INLINE float row_exp_sum(float* z, float top, std::int64_t size) {
  Vec sums[4] = {};
  std::int64_t v = 0;
  for (; v + 4 * kLanes <= size; v += 4 * kLanes)
    for (int i = 0; i < 4; ++i) {
      const Vec e = exp_of(load(z + v + i * kLanes) - top);
      if (kKeep) store(z + v + i * kLanes, e);
      sums[i] += e;
    }
  for (; v + kLanes <= size; v += kLanes) {
    const Vec e = exp_of(load(z + v) - top);
    if (kKeep) store(z + v, e);
    sums[0] += e;
  }
  float rest = 0;
  if (v < size) {
    const Vec e = exp_of(load_some(z + v, size - v) - top);
    if (kKeep) store_some(z + v, e, size - v);
    rest = sum_of([&] {
      Vec kept{};
      for (std::int64_t i = 0; i < size - v; ++i) kept[i] = e[i];
      return kept;
    }());
  }
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

WMTP_INLINE void row_scale(float* z, float factor, std::int64_t size) {
  std::int64_t v = 0;
  for (; v + kLanes <= size; v += kLanes) store(z + v, load(z + v) * factor);
  for (; v < size; ++v) z[v] *= factor;
}

void cross_entropy(const CrossEntropyRows& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t m = begin; m < end; ++m) {
    float* z = a.logits + m * a.logits_stride;
    const float scale = a.scale ? a.scale[m] : 0.0f, picked = z[a.targets[m]];
    const float top = row_max(z, a.num_logits);
    const float sum = scale != 0.0f ? row_exp_sum<true>(z, top, a.num_logits)
                                    : row_exp_sum<false>(z, top, a.num_logits);
    a.nll[m] = __builtin_logf(sum) + (top - picked);
    if (!a.scale) continue;
    if (scale == 0.0f) {
      __builtin_memset(z, 0, sizeof(float) * a.num_logits);
      if (a.hidden)
        __builtin_memset(a.hidden + m * a.hidden_stride, 0, sizeof(float) * a.num_features);
      continue;
    }
    row_scale(z, scale / sum, a.num_logits);
    z[a.targets[m]] -= scale;
  }
}
