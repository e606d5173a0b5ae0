// Part of exact_bodies.h, behind draws.h. Four bits an element as fp32 (kernels/nf4.h).
#if WMTP_VEC_BYTES >= 32
// Of the bits of an index only as many are looked at as there are products. The upper half of a
// byte belongs to the first of its two elements.
WMTP_INLINE Ints nf4_indices(const std::uint8_t* packed) {
  std::uint64_t bytes = 0;
  __builtin_memcpy(&bytes, packed, kCalls);
  Longs place;
  for (int i = 0; i < kCalls; ++i) place[i] = 8 * static_cast<std::uint64_t>(i);
  const Longs all = Longs{} + bytes;
  return reinterpret_cast<Ints>(((all >> (place + 4)) & kLowWord) | (all >> place) << 32);
}
#endif
