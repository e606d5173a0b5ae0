#include "wmtp/cli/versions.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cstdlib>
#include <filesystem>

#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

// at::show_config() is prose; the version stands in it as TORCH_VERSION=2.11.0.
std::string loaded_libtorch() {
  constexpr std::string_view kMark = "TORCH_VERSION=";
  const std::string text = at::show_config();
  const std::size_t start = text.find(kMark);
  if (start == std::string::npos) return "unknown";
  const std::size_t from = start + kMark.size();
  return text.substr(from, text.find_first_of(", \n", from) - from);
}

// Gradients come and go by units of many sizes: in segments of fixed size they leave gaps that
// nothing else fits. Whoever has set the allocator's variables is not overruled.
void prefer_expandable_segments() {
  constexpr int kKeepUsersOwn = 0;
  if (!std::getenv("PYTORCH_CUDA_ALLOC_CONF"))
    ::setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", kKeepUsersOwn);
}

}  // namespace

std::string cuda_plugin_path() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path().parent_path() / "lib" / "libwmtp_cuda.so").string();
}

std::string try_load_cuda_plugin() {
  if (cuda_loaded()) return "";
  const std::string path = cuda_plugin_path();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return "this build has no GPU plugin (" + path + ")";
  prefer_expandable_segments();
  return load_cuda_plugin(path);
}

Versions find_versions() {
  Versions versions;
  const std::string why_not = try_load_cuda_plugin();
  std::error_code ignored;
  versions.plugin_built = std::filesystem::exists(cuda_plugin_path(), ignored);
  versions.plugin_loaded = cuda_loaded();
  versions.plugin_note = versions.plugin_loaded ? cuda_tables().services.versions() : why_not;
  versions.driver_found = versions.plugin_loaded || cuda_driver_found();
  versions.libtorch_built = TORCH_VERSION;
  versions.libtorch_found = loaded_libtorch();
  return versions;
}

}  // namespace wmtp::cli
