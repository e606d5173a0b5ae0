#include "support/simd_main.h"

int main(int argc, char** argv) {
  return wmtp::test::run_limited_tests(argc, argv);
}
