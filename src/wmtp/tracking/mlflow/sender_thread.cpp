#include "wmtp/tracking/mlflow/sender_thread.h"

#include <utility>

#include "wmtp/core/log.h"

namespace wmtp::tracking::mlflow {
namespace {

// For a cancelled request to come back, and the end to be written down.
constexpr std::chrono::seconds kLastWait{2};

}  // namespace

SenderThread::SenderThread(Spool& spool, SenderThreadOptions options)
    : spool_(spool),
      options_(std::move(options)),
      sender_(spool, {.connect = [this] { return options_.connect(cancelled_); }}),
      thread_([this] { work(); }) {}

SenderThread::~SenderThread() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  cancelled_ = true;
  woken_.notify_all();
  thread_.join();
}

bool SenderThread::end(const SpooledEnd& end, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!end_) end_ = end;
  woken_.notify_all();
  if (!ended_.wait_for(lock, limit, [this] { return is_over_; })) {
    cancelled_ = true;
    stopping_ = true;
    woken_.notify_all();
    ended_.wait_for(lock, kLastWait, [this] { return is_over_; });
  }
  return has_all_;
}

std::string SenderThread::problem() const {
  const std::scoped_lock lock(mutex_);
  return problem_;
}

// On this thread, so that who ends a run does not wait for a disk that hangs.
bool SenderThread::take_end() {
  std::optional<SpooledEnd> end;
  {
    const std::scoped_lock lock(mutex_);
    if (!end_ || std::exchange(end_is_taken_, true)) return end_is_taken_;
    end = end_;
  }
  try {
    spool_.flush();
    spool_.with_files([&](SpoolFiles& files) { files.save(*end); });
  } catch (const Error& error) {
    log::warn("mlflow", "how the run ended cannot be written down: {}", error.fact());
  }
  sender_.end(*end);
  return true;
}

bool SenderThread::is_over(const Sender::Step& step) {
  if (!options_.connect) return true;
  return step.is_unreachable || step.outcome == Sender::Outcome::blocked ||
         (step.outcome == Sender::Outcome::idle && sender_.is_end_sent() && sender_.is_drained());
}

std::chrono::milliseconds SenderThread::wait_after_step(const Sender::Step& step) const {
  using std::chrono::milliseconds;
  if (step.outcome == Sender::Outcome::outage || step.outcome == Sender::Outcome::blocked)
    return step.wait;
  if (end_is_taken_) return step.wait;
  const bool goes_on = step.outcome == Sender::Outcome::sent && !step.is_partial;
  return goes_on ? milliseconds(0) : options_.linger;
}

void SenderThread::work() {
  for (;;) {
    const bool is_ending = take_end();
    Sender::Step step;
    if (options_.connect && !cancelled_) step = sender_.step();
    const bool over = is_ending && is_over(step);
    const bool has_all = sender_.is_end_sent() && sender_.is_drained();
    if (over && has_all && options_.finished) options_.finished();
    std::unique_lock lock(mutex_);
    problem_ = sender_.problem();
    has_all_ = has_all;
    if (over || (stopping_ && (!end_ || end_is_taken_))) {
      is_over_ = true;
      ended_.notify_all();
      return;
    }
    woken_.wait_for(lock, wait_after_step(step),
                    [this] { return stopping_ || (end_ && !end_is_taken_); });
  }
}

}  // namespace wmtp::tracking::mlflow
