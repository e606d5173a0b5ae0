#include "wmtp/tensor/side_stream.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace wmtp {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

SideStream::SideStream(c10::Device device) {
  if (!device.is_cuda()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  given_.emplace(device.type());
}

void SideStream::run(const std::function<void()>& work) {
  if (!beside()) return work();
  given_->record(current_stream(stream_->device()));
  given_->block(*stream_);
  const c10::StreamGuard side(*stream_);
  work();
}

void SideStream::set(Mark& mark) {
  if (!beside()) return;
  if (!mark.event_) mark.event_.emplace(stream_->device_type());
  mark.event_->record(*stream_);
}

void SideStream::Mark::wait() const {
  if (event_) event_->block(current_stream(event_->device()));
}

}  // namespace wmtp
