// What LibTorch asks of a CUDA runtime: the current device, streams (one, on which everything is
// done at once) and pinned memory (any host memory is).
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "emulated_gpu/device/memory.h"

namespace wmtp::emulated {
namespace {

struct EmulatedGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::CUDA;

  c10::DeviceType type() const override { return static_type; }
  c10::Device exchangeDevice(c10::Device) const override { return gpu(); }
  c10::Device getDevice() const override { return gpu(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, gpu());
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

}  // namespace

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
  void deviceSynchronize(c10::DeviceIndex) const override {}
};

C10_REGISTER_GUARD_IMPL(CUDA, EmulatedGuard)

}  // namespace wmtp::emulated

namespace at {
using wmtp::emulated::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
