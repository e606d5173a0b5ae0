// WMTP_VEC_BYTES of floats at a time, on whatever registers the instruction set has: sixteen where
// lanes are added up, so that every set adds in one order, else as many as a register holds.
// Included once per instruction set and size, inside that set's namespace and with its compiler
// flags: so nothing here may be an inline function the linker could share with the rest of the
// program, and no header with such functions is included.
constexpr int kVecBytes = WMTP_VEC_BYTES;
typedef float Vec __attribute__((vector_size(kVecBytes)));
typedef float VecAnywhere __attribute__((vector_size(kVecBytes), aligned(4), may_alias));
typedef std::int32_t Ints __attribute__((vector_size(kVecBytes)));
typedef std::uint32_t Words __attribute__((vector_size(kVecBytes)));
typedef std::uint16_t Halves __attribute__((vector_size(kVecBytes / 2)));
typedef std::uint16_t HalvesAnywhere
    __attribute__((vector_size(kVecBytes / 2), aligned(2), may_alias));

#define WMTP_INLINE static inline __attribute__((always_inline))
#define WMTP_INLINE_MEMBER inline __attribute__((always_inline))

constexpr std::int64_t kLanes = kVecBytes / 4;

WMTP_INLINE Vec splat(float value) {
  return value - Vec{};
}
WMTP_INLINE Vec load(const float* from) {
  return *reinterpret_cast<const VecAnywhere*>(from);
}
WMTP_INLINE void store(float* to, Vec value) {
  *reinterpret_cast<VecAnywhere*>(to) = value;
}

// The first `count` < kLanes lanes; the others read as `fill` and are not written.
WMTP_INLINE Vec load_some(const float* from, std::int64_t count, float fill = 0) {
  Vec value = splat(fill);
  for (std::int64_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
}
WMTP_INLINE void store_some(float* to, Vec value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value[i];
}

WMTP_INLINE Vec larger(Vec a, Vec b) {
  return a > b ? a : b;
}
WMTP_INLINE Vec smaller(Vec a, Vec b) {
  return a < b ? a : b;
}
WMTP_INLINE Vec root(Vec value) {
  Vec result;
  for (int i = 0; i < kLanes; ++i) result[i] = __builtin_sqrtf(value[i]);
  return result;
}

WMTP_INLINE float sum_of(Vec value) {
  float lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof lanes);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  return lanes[0];
}
WMTP_INLINE float largest_of(Vec value) {
  float lanes[kLanes];
  __builtin_memcpy(lanes, &value, sizeof lanes);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

// e^x within 2 units in the last place; x is held to [-87.3, 88], NaN stays NaN.
WMTP_INLINE Vec exp_of(Vec x) {
  x = x < -87.3f ? splat(-87.3f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum.
  const Vec shifted = x * 1.44269504f + 12582912.0f;
  const Vec whole = shifted - 12582912.0f;
  const Vec r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints exponent = (reinterpret_cast<Ints>(shifted) - 0x4b400000 + 127) << 23;
  return p * reinterpret_cast<Vec>(exponent);
}
