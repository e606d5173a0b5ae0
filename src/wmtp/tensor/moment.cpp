#include "wmtp/tensor/moment.h"

#include "wmtp/core/error.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp {

Moment Moment::now(c10::Device device) {
  if (!device.is_cuda()) return Moment(Clock::now());
  const CudaServices& services = cuda_tables().services;
  Moment moment;
  if (void* event = services.record_event())
    moment.event_ = std::shared_ptr<void>(event, services.release_event);
  return moment;
}

std::optional<double> Moment::until(const Moment& later) const {
  if (host_ && later.host_) return std::chrono::duration<double>(*later.host_ - *host_).count();
  WMTP_CHECK(event_ && later.event_, "two moments of different devices, or of none");
  const double seconds = cuda_tables().services.seconds_between(event_.get(), later.event_.get());
  return seconds < 0 ? std::nullopt : std::optional(seconds);
}

}  // namespace wmtp
