#include "emulated_gpu/device/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "emulated_gpu/device/recording.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {

void poison(void* data, std::size_t bytes) {
  if (bytes > 0) std::memset(data, 0xff, bytes);
}

void poison(const Memory& memory) {
  if (memory->use_count() == 1) poison(memory->mutable_data(), memory->nbytes());
}

namespace {

// What keeps the bytes alive behind another device's name.
struct Keeper {
  Memory memory;
  cudaStream_t stream = current_stream();
  std::uint64_t recording = current_taker();  // whose work took it; 0: none
};

struct Figures {
  std::mutex mutex;
  std::int64_t held = 0, peak = 0;
  std::set<const Keeper*> keepers;  // of the GPU's memory; twins are not counted
};

// Never destroyed: tensors with static lifetime give their memory back at the end.
Figures& figures() {
  static Figures* const instance = new Figures;
  return *instance;
}

// The real allocator hands out multiples of 512 bytes.
std::int64_t counted(const Keeper& keeper) {
  return static_cast<std::int64_t>((keeper.memory->nbytes() + 511) / 512 * 512);
}

void count(const Keeper& keeper) {
  const std::lock_guard lock(figures().mutex);
  figures().held += counted(keeper);
  figures().peak = std::max(figures().peak, figures().held);
  figures().keepers.insert(&keeper);
}

bool uncount(const Keeper& keeper) {
  const std::lock_guard lock(figures().mutex);
  if (figures().keepers.erase(&keeper) == 0) return false;
  figures().held -= counted(keeper);
  return true;
}

// As the real allocator does it: memory is free for others when the stream that took it has come to
// this point, and no other stream is asked. What a recording took is its own, and free for the rest
// of its work, or behind the replays so far; what it gives back of older memory is free at once,
// whatever it noted before.
void release(void* context) {
  const std::unique_ptr<Keeper> keeper(static_cast<Keeper*>(context));
  if (!uncount(*keeper)) return;
  Recording* const recording = Recording::current();
  if (recording == nullptr)
    return give(keeper->recording == 0 ? keeper->stream : current_stream(),
                [memory = keeper->memory] { poison(memory); });
  recording->keep(keeper->memory);
  if (keeper->recording == recording->taker())
    recording->note_release(keeper->memory);
  else
    poison(keeper->memory);
}

c10::DataPtr renamed(Memory memory, c10::Device device) {
  void* const data = const_cast<void*>(memory->data());
  auto* const keeper = new Keeper{std::move(memory)};
  if (device.is_cuda()) count(*keeper);
  return {data, keeper, &release, device};
}

// For memory that a tensor of the GPU gets a second time.
class GpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const auto memory = std::make_shared<c10::Storage>(
        c10::Storage::use_byte_size_t{}, bytes, c10::GetCPUAllocator()->allocate(bytes), nullptr);
    poison(memory);
    if (recorder() != nullptr) give(current_stream(), [memory] { poison(memory); });
    return renamed(memory, gpu());
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

c10::Storage named(const Memory& memory, c10::Device device) {
  static GpuAllocator allocator;
  return c10::Storage(c10::Storage::use_byte_size_t{}, memory->nbytes(), renamed(memory, device),
                      device.is_cuda() ? &allocator : c10::GetCPUAllocator(), /*resizable=*/true);
}

Memory memory_of(const Tensor& host) {
  return std::make_shared<c10::Storage>(host.storage());
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
  return host_view(named(memory_of(on_gpu), c10::Device(c10::DeviceType::CPU)), on_gpu);
}

Tensor recorded_twin(const Tensor& on_gpu) {
  const c10::DataPtr& data = on_gpu.storage().data_ptr();
  TORCH_CHECK(data.get_deleter() == &release, "memory that is not the emulated GPU's");
  const Memory& memory = static_cast<const Keeper*>(data.get_context())->memory;
  return host_view(named(memory, c10::Device(c10::DeviceType::CPU)), on_gpu);
}

Tensor host_view(const c10::Storage& storage, const Tensor& like) {
  return tensor_over(storage, c10::DispatchKey::CPU, like);
}

Tensor gpu_view(const c10::Storage& storage, const Tensor& like) {
  return tensor_over(storage, c10::DispatchKey::CUDA, like);
}

Tensor adopt(const Tensor& host) {
  return gpu_view(named(memory_of(host), gpu()), host);
}

void follow(const Tensor& on_gpu, const Tensor& host) {
  c10::StorageImpl& storage = *on_gpu.storage().unsafeGetStorageImpl();
  if (host.storage().data() != storage.data()) {
    storage.set_data_ptr_noswap(renamed(memory_of(host), gpu()));
    storage.set_nbytes(host.storage().nbytes());
  }
  on_gpu.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                      host.storage_offset());
}

std::vector<Memory> memory_in_use() {
  const std::lock_guard lock(figures().mutex);
  std::vector<Memory> all;
  for (const Keeper* keeper : figures().keepers) all.push_back(keeper->memory);
  return all;
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
