#include "emulated_gpu/kernels/runtime/order.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace wmtp::emulated {
namespace {

std::string order_of_environment() {
  const char* wanted = std::getenv("WMTP_EMULATED_ORDER");
  return wanted && *wanted ? wanted : "forward";
}

}  // namespace

Order::Order(const std::string& text) {
  const char* const end = text.data() + text.size();
  if (text == "forward") {
    kind_ = Kind::forward;
  } else if (text == "reversed") {
    kind_ = Kind::reversed;
  } else if (const auto read = std::from_chars(text.data(), end, state_);
             read.ec == std::errc() && read.ptr == end) {
    kind_ = Kind::drawn;
  } else {
    std::fprintf(stderr,
                 "emulated GPU: WMTP_EMULATED_ORDER has %zu characters that are neither forward, "
                 "reversed nor a seed from 0 to 2^64 - 1\n",
                 text.size());
    std::abort();
  }
}

// SplitMix64: as good as a schedule needs.
int Order::draw(std::uint32_t runnable) {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  auto skip = static_cast<int>((z >> 33) % static_cast<unsigned>(std::popcount(runnable)));
  for (; skip > 0; --skip) runnable &= runnable - 1;
  return std::countr_zero(runnable);
}

Order& order() {
  static Order current(order_of_environment());
  return current;
}

void set_order(const std::string& text) {
  order() = Order(text);
}

}  // namespace wmtp::emulated
