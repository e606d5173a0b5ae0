// How configuration enums are spelled in files: the names stand beside each enum, in the order of
// its enumerators.
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

namespace wmtp::config {

template <class E>
struct EnumNames;

template <class E>
concept NamedEnum = requires {
  EnumNames<E>::names.size();
};

#define WMTP_ENUM_NAMES(E, ...)                                                   \
  template <>                                                                     \
  struct EnumNames<E> {                                                           \
    static constexpr auto names = std::to_array<std::string_view>({__VA_ARGS__}); \
  }

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  return EnumNames<E>::names[static_cast<std::size_t>(value)];
}

}  // namespace wmtp::config
