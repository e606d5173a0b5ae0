// Arithmetic that CUDA has and C++ has not, or under other names. Where a GPU approximates (__expf,
// rsqrtf, __fdividef) this is the rounded result: tolerances of tests must hold for both.
#pragma once
#include <math.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace wmtp::emulated {

template <class To, class From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &value, sizeof(To));
  return to;
}

}  // namespace wmtp::emulated

inline std::uint32_t __float_as_uint(float value) {
  return wmtp::emulated::bits_as<std::uint32_t>(value);
}
inline int __float_as_int(float value) {
  return wmtp::emulated::bits_as<int>(value);
}
inline float __uint_as_float(std::uint32_t bits) {
  return wmtp::emulated::bits_as<float>(bits);
}
inline float __int_as_float(int bits) {
  return wmtp::emulated::bits_as<float>(bits);
}
inline long long __double_as_longlong(double value) {
  return wmtp::emulated::bits_as<long long>(value);
}
inline double __longlong_as_double(long long bits) {
  return wmtp::emulated::bits_as<double>(bits);
}

// Compiled without contraction: each operation rounds once, as _rn promises.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float __fsqrt_rn(float value) {
  return sqrtf(value);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float value) {
  return expf(value);
}
inline float __logf(float value) {
  return logf(value);
}
inline float rsqrtf(float value) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(value)));
}
inline double rsqrt(double value) {
  return 1.0 / sqrt(value);
}

// Selects four of the eight bytes of both by the nibbles of `selector`.
inline std::uint32_t __byte_perm(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(high) << 32 | low;
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t from = selector >> (4 * i) & 7u;
    word |= static_cast<std::uint32_t>(bytes >> (8 * from) & 0xffu) << (8 * i);
  }
  return word;
}
inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline int __popcll(unsigned long long bits) {
  return __builtin_popcountll(bits);
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
inline int __clz(int bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits));
}
template <class T>
T __ldg(const T* address) {
  return *address;
}

// Of one arithmetic type; floats as fmin and fmax take them, which lose a NaN beside a number.
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
T min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(fmin(a, b));
  return b < a ? b : a;
}
template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
T max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(fmax(a, b));
  return a < b ? b : a;
}
