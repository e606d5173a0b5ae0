// Integers only: no instruction set changes a bit.
#include <bit>

#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"

namespace wmtp::kernels::cpu {
namespace {

constexpr std::int64_t kElementsOfAPart = 32768;

}  // namespace

void split_planes(const Tensor& whole, const Planes& planes) {
  const auto* from = whole.const_data_ptr<float>();
  auto* upper = static_cast<std::uint16_t*>(planes.upper.mutable_data_ptr());
  auto* lower = planes.lower.defined() ? static_cast<std::int16_t*>(planes.lower.mutable_data_ptr())
                                       : nullptr;
  parallel_for(whole.numel(), kElementsOfAPart, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      upper[i] = split_bits(std::bit_cast<std::uint32_t>(from[i])).upper;
    if (!lower) return;
    for (std::int64_t i = begin; i < end; ++i)
      lower[i] = split_bits(std::bit_cast<std::uint32_t>(from[i])).lower;
  });
}

void join_planes(const Planes& planes, const Tensor& whole) {
  const auto* upper = static_cast<const std::uint16_t*>(planes.upper.const_data_ptr());
  const auto* lower = static_cast<const std::int16_t*>(planes.lower.const_data_ptr());
  auto* to = whole.mutable_data_ptr<float>();
  parallel_for(whole.numel(), kElementsOfAPart, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = std::bit_cast<float>(joined_bits({upper[i], lower[i]}));
  });
}

}  // namespace wmtp::kernels::cpu
