#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/streams.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace wmtp::emulated {

void poison(void* data, std::size_t bytes) {
  if (bytes > 0) std::memset(data, 0xff, bytes);
}

namespace {

struct Figures {
  std::mutex mutex;
  std::int64_t held = 0, peak = 0;
};

// Never destroyed: tensors with static lifetime give their memory back at the end.
Figures& figures() {
  static Figures* const instance = new Figures;
  return *instance;
}

// The real allocator hands out multiples of 512 bytes.
std::int64_t counted(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + 511) / 512 * 512);
}

void count(std::int64_t bytes) {
  const std::lock_guard lock(figures().mutex);
  figures().held += bytes;
  figures().peak = std::max(figures().peak, figures().held);
}

// What keeps the bytes alive behind another device's name: one of the two.
struct Keeper {
  c10::Storage storage;
  c10::DataPtr data;
  std::size_t gpu_bytes = 0;  // 0: a twin's, which nobody counts
  cudaStream_t stream = current_stream();
};

// Whoever reads it from now on has missed a wait.
void forget(Keeper* kept) {
  if (kept->data)
    poison(kept->data.get(), kept->gpu_bytes);
  else if (kept->storage.use_count() == 1)
    poison(kept->storage.mutable_data(), kept->gpu_bytes);
  delete kept;
}

// As the real allocator does it: memory is free for others when the stream that took it has come to
// this point, and no other stream is asked.
void release(void* keeper) {
  auto* const kept = static_cast<Keeper*>(keeper);
  if (kept->gpu_bytes == 0) return delete kept;
  count(-counted(kept->gpu_bytes));
  give(kept->stream, [kept] { forget(kept); });
}

// For memory that a tensor of the GPU gets a second time.
class GpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* const keeper = new Keeper{{}, c10::GetCPUAllocator()->allocate(bytes), bytes};
    count(counted(bytes));
    void* const data = keeper->data.get();
    poison(data, bytes);
    return {data, keeper, &release, gpu()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

c10::Storage renamed(const c10::Storage& storage, c10::Device device, std::size_t gpu_bytes) {
  static GpuAllocator allocator;
  auto* const keeper = new Keeper{storage, {}, gpu_bytes};
  c10::DataPtr data(const_cast<void*>(storage.data()), keeper, &release, device);
  return c10::Storage(c10::Storage::use_byte_size_t{}, storage.nbytes(), std::move(data),
                      device.is_cuda() ? &allocator : c10::GetCPUAllocator(), /*resizable=*/true);
}

Tensor tensor_over(c10::Storage storage, c10::DispatchKey key, const Tensor& extents) {
  Tensor result =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), key, extents.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(extents.sizes(), extents.strides(),
                                                      extents.storage_offset());
  return result;
}

}  // namespace

Tensor host_twin(const Tensor& on_gpu) {
  return tensor_over(renamed(on_gpu.storage(), c10::Device(c10::DeviceType::CPU), 0),
                     c10::DispatchKey::CPU, on_gpu);
}

Tensor host_view(const c10::Storage& storage, const Tensor& like) {
  return tensor_over(storage, c10::DispatchKey::CPU, like);
}

Tensor gpu_view(const c10::Storage& storage, const Tensor& like) {
  return tensor_over(storage, c10::DispatchKey::CUDA, like);
}

Tensor adopt(const Tensor& host) {
  const std::size_t bytes = host.storage().nbytes();
  count(counted(bytes));
  return tensor_over(renamed(host.storage(), gpu(), bytes), c10::DispatchKey::CUDA, host);
}

void follow(const Tensor& on_gpu, const Tensor& host) {
  c10::StorageImpl& storage = *on_gpu.storage().unsafeGetStorageImpl();
  if (host.storage().data() != storage.data()) {
    const std::size_t bytes = host.storage().nbytes();
    count(counted(bytes));
    auto* const keeper = new Keeper{host.storage(), {}, bytes};
    storage.set_data_ptr_noswap({host.storage().mutable_data(), keeper, &release, gpu()});
    storage.set_nbytes(host.storage().nbytes());
  }
  on_gpu.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                      host.storage_offset());
}

GpuMemory memory_figures() {
  const std::lock_guard lock(figures().mutex);
  const std::int64_t held = figures().held, peak = figures().peak;
  return {.allocated_bytes = held,
          .reserved_bytes = held,
          .peak_allocated_bytes = peak,
          .peak_reserved_bytes = peak,
          .free_bytes = kGpuBytes - held};
}

void reset_peak() {
  const std::lock_guard lock(figures().mutex);
  figures().peak = figures().held;
}

}  // namespace wmtp::emulated
