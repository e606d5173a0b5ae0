// Part of exact_bodies.h, behind draws.h. A master, its gradient and its moments from an element
// on: all lanes of them, or the first `count`.
template <bool kAll>
WMTP_INLINE Vec numbers(const float* from, std::int64_t count) {
  return kAll ? load(from) : load_some(from, count);
}
template <bool kAll>
WMTP_INLINE Halves numbers(const Bf16Bits* from, std::int64_t count) {
  return kAll ? load_halves(from) : load_halves_some(from, count);
}
template <bool kAll>
WMTP_INLINE void replace(float* to, Vec values, std::int64_t count) {
  kAll ? store(to, values) : store_some(to, values, count);
}
template <bool kAll>
WMTP_INLINE void replace(Bf16Bits* to, Halves values, std::int64_t count) {
  kAll ? store_halves(to, values) : store_halves_some(to, values, count);
}

// cpu/stochastic_rounding.h: infinity, whose lower half is zero, stays, and of NaN there is one.
WMTP_INLINE Halves rounded(Vec value, Words random16) {
  const Words bits = reinterpret_cast<Words>(value), is_nan = nan_mask(bits);
  const Words half = ((bits + random16) >> 16 & ~is_nan) | (is_nan & 0x7fc0u);
  return __builtin_convertvector(half, Halves);
}

template <bool kAll>
WMTP_INLINE Vec gradient(const RoundedMaster& a, std::int64_t i, std::int64_t count) {
  return a.grad ? numbers<kAll>(a.grad + i, count) : widened(numbers<kAll>(a.grad_bf16 + i, count));
}

template <bool kAll>
WMTP_INLINE Vec weight(const RoundedMaster& a, std::int64_t i, std::int64_t count) {
  if (a.param) return numbers<kAll>(a.param + i, count);
  if (a.param_bf16) return widened(numbers<kAll>(a.param_bf16 + i, count));
  return joined_planes(numbers<kAll>(a.upper + i, count), numbers<kAll>(a.lower + i, count));
}

template <bool kAll>
WMTP_INLINE void replace_weight(const RoundedMaster& a, std::int64_t i, Vec value, const Draw& draw,
                                std::int64_t count) {
  if (a.param) return replace<kAll>(a.param + i, value, count);
  if (a.param_bf16) return replace<kAll>(a.param_bf16 + i, rounded(value, draw.param()), count);
  replace<kAll>(a.upper + i, upper_plane(value), count);
  replace<kAll>(a.lower + i, lower_plane(value), count);
}

template <bool kAll>
WMTP_INLINE void update_rounded(const RoundedRange& a, std::int64_t i, const Draw& draw,
                                std::int64_t count = kLanes) {
  const AdamWTerms t =
      adamw_terms(a, gradient<kAll>(a, i, count), widened(numbers<kAll>(a.exp_avg + i, count)),
                  widened(numbers<kAll>(a.exp_avg_sq + i, count)), weight<kAll>(a, i, count));
  replace_weight<kAll>(a, i, t.param, draw, count);
  replace<kAll>(a.exp_avg + i, rounded(t.m1, draw.exp_avg()), count);
  replace<kAll>(a.exp_avg_sq + i, rounded(t.m2, draw.exp_avg_sq()), count);
}

// The moments are those of a block, which has room for all lanes.
template <bool kAll>
WMTP_INLINE void update_coded(const CodedRange& a, std::int64_t i, float* m1, float* m2,
                              const Draw& draw, std::int64_t count = kLanes) {
  const AdamWTerms t =
      adamw_terms(a, gradient<kAll>(a, i, count), load(m1), load(m2), weight<kAll>(a, i, count));
  store(m1, t.m1), store(m2, t.m2);
  replace_weight<kAll>(a, i, t.param, draw, count);
}
