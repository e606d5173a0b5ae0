// Part of bodies.h and of exact_bodies.h, behind vec.h. Numbers of 16 bits: bf16, and the planes of
// codes/planes.h, split and joined as codes/plane_bits.h has it.

// All bits of the lanes where a > b, both below 2^31. A comparison is made lane by lane where a
// vector is wider than the registers.
WMTP_INLINE Words mask_above(Words a, Words b) {
  return reinterpret_cast<Words>(reinterpret_cast<Ints>(b - a) >> 31);
}
WMTP_INLINE Words nan_mask(Words bits) {
  return mask_above(bits & 0x7fffffffu, Words{} + 0x7f800000u);
}
WMTP_INLINE Halves upper_plane(Vec value) {
  const Words bits = reinterpret_cast<Words>(value), is_nan = nan_mask(bits);
  const Words quiet = (bits >> 16) | 0x40u;
  return __builtin_convertvector((((bits + 0x8000u) >> 16) & ~is_nan) | (quiet & is_nan), Halves);
}
WMTP_INLINE Halves lower_plane(Vec value) {
  const Words bits = reinterpret_cast<Words>(value);
  return __builtin_convertvector(bits & ~nan_mask(bits), Halves);
}
WMTP_INLINE Vec joined_planes(Halves upper, Halves lower) {
  const Words rest = (__builtin_convertvector(lower, Words) ^ 0x8000u) - 0x8000u;
  return reinterpret_cast<Vec>((__builtin_convertvector(upper, Words) << 16) + rest);
}

WMTP_INLINE Halves load_halves(const Bf16Bits* from) {
  return *reinterpret_cast<const HalvesAnywhere*>(from);
}
WMTP_INLINE Halves load_halves_some(const Bf16Bits* from, std::int64_t count) {
  Halves halves{};
  for (std::int64_t i = 0; i < count; ++i) halves[i] = from[i];
  return halves;
}
WMTP_INLINE void store_halves(Bf16Bits* to, Halves halves) {
  *reinterpret_cast<HalvesAnywhere*>(to) = halves;
}
WMTP_INLINE void store_halves_some(Bf16Bits* to, Halves halves, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = halves[i];
}

WMTP_INLINE Vec widened(Halves bf16) {
  return reinterpret_cast<Vec>(__builtin_convertvector(bf16, Words) << 16);
}
WMTP_INLINE Vec load_bf16(const Bf16Bits* from) {
  return widened(load_halves(from));
}
WMTP_INLINE Vec load_bf16_some(const Bf16Bits* from, std::int64_t count) {
  return widened(load_halves_some(from, count));
}
