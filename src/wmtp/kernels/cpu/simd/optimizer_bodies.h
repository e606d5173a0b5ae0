// Part of bodies.h, behind adamw_terms.h. AdamW in one pass over the memory, and the sum of
// squares.

void adamw(const AdamWRange& a, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const Vec grad = a.grad ? load(a.grad + i) : load_bf16(a.grad_bf16 + i);
    const Vec param = a.param ? load(a.param + i)
                              : joined_planes(load_halves(a.upper + i), load_halves(a.lower + i));
    const AdamWTerms t = adamw_terms(a, grad, load(a.exp_avg + i), load(a.exp_avg_sq + i), param);
    store(a.exp_avg + i, t.m1);
    store(a.exp_avg_sq + i, t.m2);
    if (a.param) store(a.param + i, t.param);
    if (a.copy) store(a.copy + i, t.param);
    if (a.upper) store_halves(a.upper + i, upper_plane(t.param));
    if (a.lower) store_halves(a.lower + i, lower_plane(t.param));
  }
  const std::int64_t rest = end - i;
  if (rest == 0) return;
  const Vec grad = a.grad ? load_some(a.grad + i, rest) : load_bf16_some(a.grad_bf16 + i, rest);
  const Vec param = a.param ? load_some(a.param + i, rest)
                            : joined_planes(load_halves_some(a.upper + i, rest),
                                            load_halves_some(a.lower + i, rest));
  const AdamWTerms t = adamw_terms(a, grad, load_some(a.exp_avg + i, rest),
                                   load_some(a.exp_avg_sq + i, rest), param);
  store_some(a.exp_avg + i, t.m1, rest);
  store_some(a.exp_avg_sq + i, t.m2, rest);
  if (a.param) store_some(a.param + i, t.param, rest);
  if (a.copy) store_some(a.copy + i, t.param, rest);
  if (a.upper) store_halves_some(a.upper + i, upper_plane(t.param), rest);
  if (a.lower) store_halves_some(a.lower + i, lower_plane(t.param), rest);
}

typedef double Doubles __attribute__((vector_size(64)));
typedef float Eight __attribute__((vector_size(32)));

struct SquareSums {
  Doubles low{}, high{};

  WMTP_INLINE_MEMBER void add(Vec value) {
    Eight halves[2];
    __builtin_memcpy(halves, &value, sizeof halves);
    const Doubles a = __builtin_convertvector(halves[0], Doubles);
    const Doubles b = __builtin_convertvector(halves[1], Doubles);
    low += a * a;
    high += b * b;
  }
  WMTP_INLINE_MEMBER double total() const {
    const Doubles sums = low + high;
    double all = 0;
    for (int i = 0; i < 8; ++i) all += sums[i];
    return all;
  }
};

double squared_norm(const float* values, std::int64_t size) {
  SquareSums even, odd;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
    even.add(load(values + i));
    odd.add(load(values + i + kLanes));
  }
  for (; i < size; i += kLanes)
    even.add(size - i >= kLanes ? load(values + i) : load_some(values + i, size - i));
  return even.total() + odd.total();
}

double squared_norm_bf16(const Bf16Bits* values, std::int64_t size) {
  SquareSums sums;
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) sums.add(load_bf16(values + i));
  if (i < size) sums.add(load_bf16_some(values + i, size - i));
  return sums.total();
}
