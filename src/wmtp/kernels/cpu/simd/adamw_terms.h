// Part of bodies.h and of exact_bodies.h, behind vec.h. AdamW of a vector of elements, in the order
// of cpu/adamw_factors.h.
struct AdamWTerms {
  Vec m1, m2, param;
};

WMTP_INLINE AdamWTerms adamw_terms(const AdamWScalars& a, Vec grad, Vec m1, Vec m2, Vec param) {
  const Vec g = grad * a.grad_scale;
  m1 = a.beta1 * m1 + (1.0f - a.beta1) * g;
  m2 = a.beta2 * m2 + (1.0f - a.beta2) * g * g;
  param = param * a.keep - a.rate * m1 / (root(m2 * a.correction2) + a.eps);
  return {m1, m2, param};
}
