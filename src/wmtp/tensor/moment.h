// A point in time as a device sees it: on a CPU the host's clock; on a GPU the point that the
// current stream reaches after all that is enqueued so far, marked by an event. Taking one never
// waits, neither does asking how far apart two are.
#pragma once
#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "wmtp/core/time.h"

namespace wmtp {

class Moment {
 public:
  Moment() = default;  // none
  explicit Moment(Clock::time_point host) : host_(host) {}
  // STREAM on a GPU; none while that stream is captured into a graph, which an event would become
  // a part of.
  static Moment now(c10::Device device);

  explicit operator bool() const { return host_.has_value() || event_ != nullptr; }
  // Seconds; absent as long as the stream has not come to both. REQUIRES two of one device.
  std::optional<double> until(const Moment& later) const;

 private:
  std::optional<Clock::time_point> host_;
  std::shared_ptr<void> event_;
};

}  // namespace wmtp
