// main() of test binaries that run our kernels.
#pragma once
#include <gtest/gtest.h>

#include "support/simd_limit.h"

namespace wmtp::test {

inline int run_limited_tests(int argc, char** argv) {
  if (!limit_simd_by_environment()) return 1;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace wmtp::test
