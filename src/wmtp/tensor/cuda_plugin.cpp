#include "wmtp/tensor/cuda_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <optional>

#include "wmtp/core/error.h"

namespace wmtp {
namespace {

// The CUDA context: with the logger the only state of the process.
struct Context {
  std::optional<CudaTables> tables;
  std::string absence = "the GPU plugin was not loaded";
};

Context& context() {
  static Context instance;
  return instance;
}

std::string open_plugin(const std::string& library, Context& state) {
  // RTLD_GLOBAL: libtorch_cuda registers itself with the libtorch_cpu that the program already
  // holds.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle) {
    const std::string loader_says = ::dlerror();
    return cuda_driver_found() ? fmt::format("cannot load {}: {}", library, loader_says)
                               : "there is no NVIDIA driver (libcuda.so.1 is not found)";
  }
  auto entry = reinterpret_cast<CudaPluginEntry>(::dlsym(handle, kCudaPluginSymbol));
  if (!entry) return fmt::format("{} is not a wmtp GPU plugin", library);
  CudaTables tables;
  if (!entry(kCudaPluginAbi, &tables))
    return fmt::format("{} was built for another version of wmtp", library);
  if (tables.services.device_count() == 0) return "the driver shows no GPU";
  state.tables = tables;
  return "";
}

}  // namespace

std::string load_cuda_plugin(const std::string& library) {
  Context& state = context();
  if (state.tables) return "";
  state.absence = open_plugin(library, state);
  return state.absence;
}

bool cuda_loaded() {
  return context().tables.has_value();
}

bool cuda_driver_found() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) ::dlclose(driver);
  return driver != nullptr;
}

const CudaTables& cuda_tables() {
  const Context& state = context();
  if (!state.tables)
    throw Error(ErrorKind::config, "device", "no GPU here: " + state.absence,
                "use --device cpu, or see `wmtp doctor`");
  return *state.tables;
}

}  // namespace wmtp
