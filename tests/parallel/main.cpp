#include "support/cuda_main.h"

int main(int argc, char** argv) {
  return wmtp::test::run_all_tests(argc, argv);
}
