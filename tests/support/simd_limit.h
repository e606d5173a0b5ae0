// For main() of test programs and probes that run our kernels: WMTP_TEST_SIMD=baseline|avx2|avx512
// limits their vectorised bodies to that instruction set, as ATEN_CPU_CAPABILITY does ATen's
// (tools/isa_matrix sets both).
#pragma once
#include <cstdlib>
#include <exception>
#include <iostream>

#include "wmtp/kernels/support/simd_level.h"

namespace wmtp::test {

// False after a message: the program is to end with 1.
inline bool limit_simd_by_environment() {
  const char* const level = std::getenv("WMTP_TEST_SIMD");
  if (!level) return true;
  try {
    kernels::limit_simd(kernels::simd_level_from_name(level));
    return true;
  } catch (const std::exception& error) {
    std::cerr << "WMTP_TEST_SIMD: " << error.what() << "\n";
    return false;
  }
}

}  // namespace wmtp::test
