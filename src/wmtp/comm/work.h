// A collective that was started (communicator.h).
#pragma once
#include <memory>
#include <optional>
#include <utility>

#include "wmtp/core/time.h"

namespace wmtp::comm {

// A collective under way. Its tensors stay alive until it ends. A default-made one is already done.
class Work {
 public:
  class Body {
   public:
    virtual ~Body() = default;
    virtual void wait() = 0;
    virtual bool done() = 0;
    // When the result was there, where the backend tells.
    virtual std::optional<Clock::time_point> ended() const { return std::nullopt; }
  };
  Work() = default;
  explicit Work(std::unique_ptr<Body> body) : body_(std::move(body)) {}

  // CPU tensors: BLOCKS until the result is there. CUDA tensors: the current STREAM waits, the host
  // goes on. Throws Error comm when a peer is lost, time is up or the group was aborted. May be
  // called again.
  void wait();
  bool done() const { return !body_ || body_->done(); }
  std::optional<Clock::time_point> ended() const { return body_ ? body_->ended() : std::nullopt; }

 private:
  std::unique_ptr<Body> body_;
};

}  // namespace wmtp::comm
