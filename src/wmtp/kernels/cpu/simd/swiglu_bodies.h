// Part of bodies.h. out = gate sigmoid(gate) up, and its backward in place.

void swiglu(const SwigluRows& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    const float* gate = a.gate_up + n * a.gate_up_stride;
    const float* up = gate + a.num_features;
    float* out = a.out + n * a.out_stride;
    std::int64_t f = 0;
    for (; f + kLanes <= a.num_features; f += kLanes) {
      const Vec g = load(gate + f);
      store(out + f, g / (1.0f + exp_of(-g)) * load(up + f));
    }
    if (const std::int64_t rest = a.num_features - f; rest > 0) {
      const Vec g = load_some(gate + f, rest);
      store_some(out + f, g / (1.0f + exp_of(-g)) * load_some(up + f, rest), rest);
    }
  }
}

struct SwigluTerms {
  Vec out, dgate, dup;
};

WMTP_INLINE SwigluTerms swiglu_terms(Vec dout, Vec gate, Vec up) {
  const Vec sigmoid = 1.0f / (1.0f + exp_of(-gate));
  const Vec silu = gate * sigmoid;
  return {silu * up, dout * up * sigmoid * (1.0f + gate * (1.0f - sigmoid)), dout * silu};
}

void swiglu_backward(const SwigluRows& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t n = begin; n < end; ++n) {
    float* gate = a.gate_up + n * a.gate_up_stride;
    float* up = gate + a.num_features;
    const float* dout = a.dout + n * a.dout_stride;
    float* out = a.out ? a.out + n * a.out_stride : nullptr;
    std::int64_t f = 0;
    for (; f + kLanes <= a.num_features; f += kLanes) {
      const SwigluTerms terms = swiglu_terms(load(dout + f), load(gate + f), load(up + f));
      if (out) store(out + f, terms.out);
      store(gate + f, terms.dgate);
      store(up + f, terms.dup);
    }
    if (const std::int64_t rest = a.num_features - f; rest > 0) {
      const SwigluTerms terms = swiglu_terms(load_some(dout + f, rest), load_some(gate + f, rest),
                                             load_some(up + f, rest));
      if (out) store_some(out + f, terms.out, rest);
      store_some(gate + f, terms.dgate, rest);
      store_some(up + f, terms.dup, rest);
    }
  }
}
