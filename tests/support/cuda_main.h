// main() of test binaries that have tests for a GPU: WMTP_TEST_CUDA=1 loads the plugin beside the
// binary, which must happen before LibTorch is used. Tests ask wmtp::cuda_loaded().
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {

inline int run_all_tests(int argc, char** argv) {
  const char* wanted = std::getenv("WMTP_TEST_CUDA");
  if (wanted && std::string(wanted) == "1") {
    const auto program = std::filesystem::canonical("/proc/self/exe");
    const auto library = program.parent_path().parent_path() / "lib" / "libwmtp_cuda.so";
    const std::string why = load_cuda_plugin(library.string());
    if (!why.empty()) {
      std::cerr << "WMTP_TEST_CUDA=1, but " << why << "\n";
      return 1;
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace wmtp::test
