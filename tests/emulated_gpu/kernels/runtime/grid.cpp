// A launch: the hardware's limits, then block after block.
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "emulated/launch.h"
#include "emulated_gpu/kernels/runtime/block.h"
#include "emulated_gpu/kernels/runtime/fault.h"

namespace wmtp::emulated {
namespace {

constexpr int kUnwritten = 0xff;      // NaN in fp32, fp64, bf16 and fp16, -1 as an integer
constexpr std::size_t kBeyond = 256;  // bytes behind the dynamic shared memory that are watched

std::mutex launching;
thread_local cudaError_t last_error = cudaSuccess;

struct SharedMemory {
  // Dynamic memory begins on a multiple of 16 and of nothing more, as much as a GPU promises.
  alignas(32) std::byte bytes[16 + kSharedAtMost + kBeyond];
  std::size_t dynamic_bytes = 0, static_bytes = 0;
  std::uint64_t block = 0;  // counted over all launches, from 1

  std::byte* dynamic() { return bytes + 16; }
} shared;

std::unordered_map<const void*, std::size_t>& dynamic_limits() {
  static std::unordered_map<const void*, std::size_t> limits;
  return limits;
}

bool within(const dim3& extent, unsigned x, unsigned y, unsigned z) {
  return extent.x >= 1 && extent.y >= 1 && extent.z >= 1 && extent.x <= x && extent.y <= y &&
         extent.z <= z;
}

cudaError_t refusal(const Launch& launch) {
  const dim3& block = launch.block;
  if (!within(launch.grid, 0x7fffffffu, 65535, 65535) || !within(block, 1024, 1024, 64) ||
      block.x * block.y * block.z > kMostThreads)
    return cudaErrorInvalidConfiguration;
  const auto limit = dynamic_limits().find(launch.address);
  const bool set = limit != dynamic_limits().end();
  return launch.shared_bytes > (set ? limit->second : kSharedByDefault) ? cudaErrorInvalidValue
                                                                        : cudaSuccess;
}

void run_block(void (*body)(const void*), const void* context) {
  ++shared.block;
  shared.static_bytes = 0;
  std::memset(shared.dynamic(), kUnwritten, shared.dynamic_bytes + kBeyond);
  Block::current().run(body, context);
  for (std::size_t i = 0; i < kBeyond; ++i)
    if (shared.dynamic()[shared.dynamic_bytes + i] != std::byte{kUnwritten})
      fault("the block wrote byte " + std::to_string(shared.dynamic_bytes + i) + " of its " +
            std::to_string(shared.dynamic_bytes) + " bytes of dynamic shared memory");
}

}  // namespace

void run_grid(const Launch& launch, void (*body)(const void*), const void* context) {
  const std::lock_guard lock(launching);
  if (const cudaError_t error = refusal(launch); error != cudaSuccess) {
    last_error = error;
    return;
  }
  name_launch(launch.kernel, launch.site);
  gridDim = launch.grid, blockDim = launch.block;
  Block::current().set_extent(blockDim);
  shared.dynamic_bytes = launch.shared_bytes;
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        run_block(body, context);
      }
}

void check_launch_bounds(int most_threads, int, const char* kernel) {
  name_kernel(kernel);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  if (threads > static_cast<unsigned>(most_threads))
    fault(std::to_string(threads) + " threads to a block, but its __launch_bounds__ are " +
          std::to_string(most_threads));
}

void* dynamic_shared_memory() {
  return shared.dynamic();
}

void SharedVariable::open(void* variable, std::size_t bytes) {
  if (block_ == shared.block) return;
  block_ = shared.block;
  std::memset(variable, kUnwritten, bytes);
  shared.static_bytes += bytes;
  if (shared.static_bytes > kSharedByDefault ||
      shared.static_bytes + shared.dynamic_bytes > kSharedAtMost)
    fault("static shared memory of " + std::to_string(shared.static_bytes) + " bytes beside " +
          std::to_string(shared.dynamic_bytes) + " dynamic ones; a block has " +
          std::to_string(kSharedByDefault) + " and " + std::to_string(kSharedAtMost) + " in all");
}

void synchronize_block(Site site) {
  Block::current().synchronize(site);
}

std::uint64_t exchange(const WarpRequest& request, Site site) {
  return Block::current().exchange(request, site);
}

cudaError_t set_dynamic_shared_limit(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<std::size_t>(bytes) > kSharedAtMost)
    return last_error = cudaErrorInvalidValue;
  const std::lock_guard lock(launching);
  dynamic_limits()[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

}  // namespace wmtp::emulated

cudaError_t cudaPeekAtLastError() {
  return wmtp::emulated::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = wmtp::emulated::last_error;
  wmtp::emulated::last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount
               ? 132
               : static_cast<int>(wmtp::emulated::kSharedAtMost);
  return cudaSuccess;
}
