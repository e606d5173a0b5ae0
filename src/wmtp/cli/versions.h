// The versions of this program and of the libraries it was built with and runs on.
#pragma once
#include <string>

namespace wmtp::cli {

struct Versions {
  std::string libtorch_built;  // of the headers
  std::string libtorch_found;  // as the loaded library says of itself
  bool plugin_built = false;   // libwmtp_cuda.so lies where the program looks
  bool plugin_loaded = false;
  std::string plugin_note;    // CUDA versions, or why it is not loaded
  bool driver_found = false;  // NVIDIA's, looked for where the plugin is not loaded
};

std::string cuda_plugin_path();  // where the program looks for its GPU half
// Loads the GPU plugin if it is there. REQUIRES: before any other LibTorch call of the process.
// Returns "" or why there is no GPU.
std::string try_load_cuda_plugin();
Versions find_versions();  // calls try_load_cuda_plugin first

}  // namespace wmtp::cli
