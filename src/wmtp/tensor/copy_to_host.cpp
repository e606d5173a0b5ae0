#include "wmtp/tensor/copy_to_host.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace wmtp {

HostCopy::HostCopy(const Tensor& on_device) : host_(on_device) {
  if (!on_device.defined() || on_device.is_cpu()) return;
  const c10::Device device = on_device.device();
  host_ = at::empty_like(on_device,
                         on_device.options().device(c10::kCPU).pinned_memory(device.is_cuda()));
  host_.copy_(on_device, /*non_blocking=*/true);
  copied_.emplace(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

const Tensor& HostCopy::wait() const {
  if (copied_) copied_->synchronize();
  return host_;
}

}  // namespace wmtp
