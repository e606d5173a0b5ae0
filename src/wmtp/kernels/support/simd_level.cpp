#include "wmtp/kernels/support/simd_level.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/simd/table.h"

namespace wmtp::kernels {
namespace {

constexpr SimdLevel kSimdLevels[] = {SimdLevel::baseline, SimdLevel::avx2, SimdLevel::avx512};

}  // namespace

std::string_view simd_level_name(SimdLevel level) {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(level)];
}

SimdLevel simd_level_from_name(std::string_view name) {
  for (const SimdLevel level : kSimdLevels)
    if (simd_level_name(level) == name) return level;
  throw Error(ErrorKind::config, "kernels", fmt::format("'{}' is no instruction set", name),
              "baseline, avx2 or avx512");
}

SimdLevel widest_simd_level() {
  return static_cast<SimdLevel>(cpu::num_simd_kernels() - 1);
}

SimdLevel simd_level() {
  return simd_level_from_name(cpu::simd_kernels().name);
}

void limit_simd(SimdLevel level) {
  if (level > widest_simd_level())
    throw Error(ErrorKind::config, "kernels",
                fmt::format("the instruction set {} is not on this processor, which has {}",
                            simd_level_name(level), simd_level_name(widest_simd_level())),
                "choose one that it has");
  cpu::use_simd_kernels(static_cast<int>(level));
}

}  // namespace wmtp::kernels
