// In which order the threads of a block run: a kernel that needs one of them lacks a barrier.
#pragma once
#include <bit>
#include <cstdint>
#include <string>

namespace wmtp::emulated {

// Which one of several runnable warps, or lanes of a warp, goes on.
class Order {
 public:
  // "forward": the lowest; "reversed": the highest; an unsigned number: any, drawn with that seed.
  // Else a message to stderr ends the process.
  explicit Order(const std::string& text);

  // REQUIRES one bit at least.
  int pick(std::uint32_t runnable) {
    if (kind_ == Kind::forward) return std::countr_zero(runnable);
    if (kind_ == Kind::reversed) return 31 - std::countl_zero(runnable);
    return draw(runnable);
  }

 private:
  enum class Kind { forward, reversed, drawn };

  int draw(std::uint32_t runnable);

  Kind kind_;
  std::uint64_t state_ = 0;
};

// For all launches from now on; the first one takes WMTP_EMULATED_ORDER, or "forward". THREADS none
// may launch meanwhile.
void set_order(const std::string& text);
Order& order();

}  // namespace wmtp::emulated
