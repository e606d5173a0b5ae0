// Atomic operations on global and shared memory: threads run one at a time here, so that plain ones
// do. The types are those for which hardware has them.
#pragma once
#include <type_traits>

namespace wmtp::emulated {

template <class T>
inline constexpr bool kAtomicInteger =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long long> ||
    std::is_same_v<T, unsigned long long>;
template <class T>
inline constexpr bool kAtomicSum =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
    std::is_same_v<T, unsigned long long> || std::is_same_v<T, float> || std::is_same_v<T, double>;

// As the second parameter's type: the first one alone decides T.
template <class T>
using Same = std::common_type_t<T>;

}  // namespace wmtp::emulated

template <class T>
T atomicAdd(T* address, wmtp::emulated::Same<T> value) {
  static_assert(wmtp::emulated::kAtomicSum<T>, "hardware has no atomicAdd of this type");
  const T before = *address;
  *address = before + value;
  return before;
}
template <class T>
T atomicMax(T* address, wmtp::emulated::Same<T> value) {
  static_assert(wmtp::emulated::kAtomicInteger<T>, "hardware has no atomicMax of this type");
  const T before = *address;
  *address = before < value ? value : before;
  return before;
}
template <class T>
T atomicMin(T* address, wmtp::emulated::Same<T> value) {
  static_assert(wmtp::emulated::kAtomicInteger<T>, "hardware has no atomicMin of this type");
  const T before = *address;
  *address = value < before ? value : before;
  return before;
}
template <class T>
T atomicExch(T* address, wmtp::emulated::Same<T> value) {
  static_assert(wmtp::emulated::kAtomicSum<T> && !std::is_same_v<T, double>,
                "hardware has no atomicExch of this type");
  const T before = *address;
  *address = value;
  return before;
}
template <class T>
T atomicCAS(T* address, wmtp::emulated::Same<T> compare, wmtp::emulated::Same<T> value) {
  static_assert(wmtp::emulated::kAtomicInteger<T> && !std::is_same_v<T, long long>,
                "hardware has no atomicCAS of this type");
  const T before = *address;
  if (before == compare) *address = value;
  return before;
}
