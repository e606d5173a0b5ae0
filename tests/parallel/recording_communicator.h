// A communicator of one process that plays rank 0 of two: it copies at once, and writes down which
// gather was started and which was waited for.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/comm/communicator.h"

namespace wmtp::test {

class RecordingCommunicator : public comm::Communicator {
 public:
  struct Event {
    bool is_wait = false;
    std::int64_t numel = 0;  // of the gathered whole: tests give every unit a size of its own
  };

  RecordingCommunicator()
      : Communicator({"recording", 0, 2, c10::Device(c10::DeviceType::CPU)}),
        events_(std::make_shared<std::vector<Event>>()) {}
  std::string_view backend() const override { return "recording"; }
  void abort() noexcept override {}

  // Since the last call.
  std::vector<Event> take() {
    std::vector<Event> taken = std::move(*events_);
    events_->clear();
    return taken;
  }

  // The most gathers that were on their way at once.
  static int most_in_flight(const std::vector<Event>& events) {
    int now = 0, most = 0;
    for (const Event& event : events) {
      now += event.is_wait ? -1 : 1;
      most = std::max(most, now);
    }
    return most;
  }

 protected:
  // The other rank's part is a copy of ours.
  comm::Work do_all_gather(const Tensor& out, const Tensor& in) override {
    for (std::int64_t rank = 0; rank < 2; ++rank)
      out.narrow(0, rank * in.numel(), in.numel()).copy_(in.clone());
    events_->push_back({false, out.numel()});
    return comm::Work(std::make_unique<Waiting>(events_, out.numel()));
  }
  comm::Work do_reduce_scatter(const Tensor& out, const Tensor& in) override {
    out.copy_(in.narrow(0, 0, out.numel()));
    return {};
  }
  comm::Work do_all_reduce(const Tensor&) override { return {}; }
  comm::Work do_broadcast(const Tensor&, int) override { return {}; }
  comm::Work do_gather(const Tensor&, const Tensor&, int) override { return {}; }
  void do_barrier() override {}

 private:
  using Events = std::shared_ptr<std::vector<Event>>;

  class Waiting : public comm::Work::Body {
   public:
    Waiting(Events events, std::int64_t numel) : events_(std::move(events)), numel_(numel) {}
    void wait() override {
      if (!waited_) events_->push_back({true, numel_});
      waited_ = true;
    }
    bool done() override { return waited_; }

   private:
    Events events_;
    std::int64_t numel_;
    bool waited_ = false;
  };

  Events events_;
};

}  // namespace wmtp::test
