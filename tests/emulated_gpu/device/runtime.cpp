// What LibTorch asks of a CUDA runtime: the current device, streams and events
// (kernels/runtime/streams.h) and pinned memory (any host memory is).
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <utility>

#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/recording.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {
namespace {

thread_local c10::StreamId current = 0;

// A point of a stream, or of a recording.
struct EmulatedEvent {
  cudaStream_t stream = nullptr;
  std::size_t num_given = 0;
  std::uint64_t recording = 0;
  Recording::Point point = {};
};

EmulatedEvent event_of(cudaStream_t stream) {
  if (const Recording* const recording = Recording::current())
    if (const auto point = recording->point(stream))
      return {.recording = recording->number(), .point = *point};
  return {.stream = stream, .num_given = num_given(stream)};
}

struct EmulatedGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;

  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device) const override { return gpu(); }
  c10::Device getDevice() const override { return gpu(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, gpu(), current);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::atomic<c10::StreamId> last = 0;
    return c10::Stream(c10::Stream::UNSAFE, gpu(), ++last);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, gpu(), std::exchange(current, stream.id()));
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (*event == nullptr) *event = new EmulatedEvent;
    *static_cast<EmulatedEvent*>(*event) = event_of(stream_of(stream.id()));
  }
  // At once, also where the stream that waits puts off its work.
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const auto& at = *static_cast<EmulatedEvent*>(event);
    TORCH_CHECK(at.recording == current_recording(),
                "a wait for an event that is not of the same recording");
    if (Recording* const recording = Recording::current())
      return recording->wait(stream_of(stream.id()), at.point);
    do_until(at.stream, at.num_given);
  }
  void synchronizeEvent(void* event) const override {
    refuse_while_recording("a wait for an event");
    const auto& at = *static_cast<EmulatedEvent*>(event);
    TORCH_CHECK(at.recording == 0, "a wait of the host for an event that was recorded");
    do_until(at.stream, at.num_given);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<EmulatedEvent*>(event);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

}  // namespace

cudaStream_t current_stream() {
  return stream_of(current);
}

// The name by which LibTorch looks for it.
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void*) const override { return true; }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetDefaultCPUAllocator(); }
  c10::Device getDeviceFromPtr(void*) const override { return gpu(); }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  std::string showConfig() const override { return "  - emulated GPU\n"; }
  bool hasCuDNN() const override { return true; }
  void deviceSynchronize(c10::DeviceIndex) const override {
    refuse_while_recording("a wait for the GPU");
    do_all();
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, EmulatedGuard)

}  // namespace wmtp::emulated

namespace at {
using wmtp::emulated::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
