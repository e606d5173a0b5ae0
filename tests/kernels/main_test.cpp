// WMTP_TEST_CUDA=1 runs the op-matrix on the GPU too; the plugin must be there before LibTorch is
// used.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "wmtp/tensor/cuda_plugin.h"

int main(int argc, char** argv) {
  const char* wanted = std::getenv("WMTP_TEST_CUDA");
  if (wanted && std::string(wanted) == "1") {
    const auto program = std::filesystem::canonical("/proc/self/exe");
    const auto library = program.parent_path().parent_path() / "lib" / "libwmtp_cuda.so";
    const std::string why = wmtp::load_cuda_plugin(library.string());
    if (!why.empty()) {
      std::cerr << "WMTP_TEST_CUDA=1, but " << why << "\n";
      return 1;
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
