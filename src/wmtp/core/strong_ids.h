// Integers that must not be mixed up, as distinct types. A `StrongId<Tag>` never converts on its
// own; `.value()` is the number.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace wmtp {

template <class Tag, class Int = std::int64_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;
  constexpr StrongId& operator++() {
    ++value_;
    return *this;
  }

 private:
  Int value_ = 0;
};

using UnitId = StrongId<struct UnitTag, int>;  // unit of the model, in forward order

}  // namespace wmtp

template <class Tag, class Int>
struct std::hash<wmtp::StrongId<Tag, Int>> {
  std::size_t operator()(wmtp::StrongId<Tag, Int> id) const { return std::hash<Int>{}(id.value()); }
};
