// A communicator of one process that plays a rank of several: it writes down which collective was
// started and which was waited for. What the other ranks have is a copy of ours; a result is there
// once it was waited for, until then a gather holds NaN.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"

namespace wmtp::test {

class RecordingCommunicator : public comm::Communicator {
 public:
  struct Event {
    bool is_wait = false;
    std::int64_t numel = 0;  // of the whole: tests give every unit a size of its own
    const char* kind = "";   // gather, reduce_scatter, all_reduce
  };

  explicit RecordingCommunicator(int rank = 0, int world = 2)
      : Communicator({"recording", rank, world, c10::Device(c10::DeviceType::CPU)}),
        events_(std::make_shared<std::vector<Event>>()) {}
  // Writes into the same book as `with`.
  RecordingCommunicator(int rank, int world, const RecordingCommunicator& with)
      : Communicator({"recording", rank, world, c10::Device(c10::DeviceType::CPU)}),
        events_(with.events_) {}
  std::string_view backend() const override { return "recording"; }
  void abort() noexcept override {}

  // Since the last call.
  std::vector<Event> take() {
    std::vector<Event> taken = std::move(*events_);
    events_->clear();
    return taken;
  }

  // The most collectives that were on their way at once.
  static int most_in_flight(const std::vector<Event>& events) {
    int now = 0, most = 0;
    for (const Event& event : events) {
      now += event.is_wait ? -1 : 1;
      most = std::max(most, now);
    }
    return most;
  }
  // Sizes in the order of events: "+256" was started, "-256" was waited for.
  static std::string story(const std::vector<Event>& events) {
    std::string text;
    for (const Event& event : events)
      text += (text.empty() ? "" : " ") + std::string(event.is_wait ? "-" : "+") +
              std::to_string(event.numel);
    return text;
  }

 protected:
  comm::Work do_all_gather(const Tensor& out, const Tensor& in) override {
    const Tensor part = in.clone();
    out.fill_(std::numeric_limits<double>::quiet_NaN());
    return started("gather", out.numel(), [out, part, ranks = world()] {
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        out.narrow(0, rank * part.numel(), part.numel()).copy_(part);
    });
  }
  comm::Work do_reduce_scatter(const Tensor& out, const Tensor& in) override {
    const Tensor slice = in.narrow(0, rank() * out.numel(), out.numel());
    return started("reduce_scatter", in.numel(), [out, slice, ranks = world()] {
      if (out.data_ptr() != slice.data_ptr()) out.copy_(slice);
      out.mul_(ranks);
    });
  }
  comm::Work do_all_reduce(const Tensor& in_out) override {
    return started("all_reduce", in_out.numel(), [in_out, ranks = world()] { in_out.mul_(ranks); });
  }
  comm::Work do_broadcast(const Tensor&, int) override { return {}; }
  comm::Work do_gather(const Tensor&, const Tensor&, int) override { return {}; }
  void do_barrier() override {}

 private:
  using Events = std::shared_ptr<std::vector<Event>>;

  class Waiting : public comm::Work::Body {
   public:
    Waiting(Events events, Event end, std::function<void()> deliver)
        : events_(std::move(events)), end_(end), deliver_(std::move(deliver)) {}
    void wait() override {
      if (waited_) return;
      events_->push_back(end_);
      deliver_();
      waited_ = true;
    }
    bool done() override { return waited_; }

   private:
    Events events_;
    Event end_;
    std::function<void()> deliver_;
    bool waited_ = false;
  };

  comm::Work started(const char* kind, std::int64_t numel, std::function<void()> deliver) {
    events_->push_back({false, numel, kind});
    return comm::Work(
        std::make_unique<Waiting>(events_, Event{true, numel, kind}, std::move(deliver)));
  }

  Events events_;
};

}  // namespace wmtp::test
