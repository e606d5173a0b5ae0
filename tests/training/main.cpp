#include "support/cuda_main.h"
#include "support/simd_limit.h"

int main(int argc, char** argv) {
  if (!wmtp::test::limit_simd_by_environment()) return 1;
  return wmtp::test::run_all_tests(argc, argv);
}
