// What translate.py makes of launches, shared memory and launch bounds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "emulated/runtime_api.h"
#include "emulated/site.h"
#include "emulated/vector_types.h"
#include "emulated_gpu/kernels/runtime/streams.h"

namespace wmtp::emulated {

struct Launch {
  const char* kernel;  // as the launch names it
  const void* address;
  dim3 grid, block;
  std::size_t shared_bytes;
  Site site;
};

// Runs body(context) once for each thread of the grid, blocks one after the other in the order of
// their indices, or refuses the launch as the hardware does, for cudaPeekAtLastError to tell.
// BLOCKS until all of it is done. THREADS any; launches wait for each other.
void run_grid(const Launch& launch, void (*body)(const void* context), const void* context);

// A kernel with its configuration; called with the arguments, which convert to the parameters
// before the first thread runs, as those of a real launch do.
template <class... P>
class Configured {
 public:
  Configured(void (*kernel)(P...), const Launch& launch, cudaStream_t stream)
      : kernel_(kernel), launch_(launch), stream_(stream) {}

  template <class... A>
  void operator()(A&&... arguments) const {
    const std::pair<void (*)(P...), std::tuple<P...>> call(
        kernel_, std::tuple<P...>(std::forward<A>(arguments)...));
    give(stream_, [call, launch = launch_] {
      run_grid(
          launch,
          [](const void* context) {
            const auto& [kernel, parameters] = *static_cast<decltype(&call)>(context);
            std::apply(kernel, parameters);
          },
          &call);
    });
  }

 private:
  void (*kernel_)(P...);
  Launch launch_;
  cudaStream_t stream_;
};

template <class... P>
Configured<P...> configured(const char* name, void (*kernel)(P...), dim3 grid, dim3 block,
                            std::size_t shared_bytes = 0, cudaStream_t stream = nullptr,
                            Site site = Site::here()) {
  return {kernel,
          {name, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, site},
          stream};
}

// Called first in a kernel that has bounds: an error on a GPU, a fault here.
void check_launch_bounds(int most_threads, int least_blocks = 0,
                         const char* kernel = __builtin_FUNCTION());

void* dynamic_shared_memory();
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(dynamic_shared_memory());
}

// Beside each static __shared__ variable: the first thread of a block that comes to its declaration
// makes it unwritten, all bits set.
class SharedVariable {
 public:
  void open(void* variable, std::size_t bytes);

 private:
  std::uint64_t block_ = 0;
};

}  // namespace wmtp::emulated
