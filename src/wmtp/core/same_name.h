// One enum as another with the same enumerators. The configuration and the module that acts on a
// choice both name it, and neither may know the other; this is the bridge between the two.
#pragma once
#include <cstddef>
#include <string_view>
#include <utility>

namespace wmtp {

// "cosine" of ScheduleType::cosine; empty for a number that no enumerator has. GCC and Clang both
// spell a template's argument out in the name of its function.
template <auto kValue>
consteval std::string_view enumerator_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("kValue = ") + 9);
  text = text.substr(0, text.find_first_of(";]"));
  return text.front() == '(' ? std::string_view() : text.substr(text.rfind(':') + 1);
}

// REQUIRES enumerators that count from 0.
template <class E, std::size_t kFrom = 0>
consteval std::size_t num_enumerators() {
  if constexpr (enumerator_name<static_cast<E>(kFrom)>().empty())
    return kFrom;
  else
    return num_enumerators<E, kFrom + 1>();
}

template <class A, class B, std::size_t... kIndex>
consteval bool equal_enumerators(std::index_sequence<kIndex...>) {
  return (
      (enumerator_name<static_cast<A>(kIndex)>() == enumerator_name<static_cast<B>(kIndex)>()) &&
      ...);
}

// The same names in the same order.
template <class A, class B>
concept SameEnumerators = num_enumerators<A>()
== num_enumerators<B>() && equal_enumerators<A, B>(
                               std::make_index_sequence<num_enumerators<A>()>());

// An enumerator that is added, renamed or moved on one side only does not compile.
template <class To, class From>
requires SameEnumerators<To, From>
constexpr To same_name(From value) {
  return static_cast<To>(value);
}

}  // namespace wmtp
