#include "wmtp/comm/c10d_communicator.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>

#include "wmtp/comm/store_body.h"
#include "wmtp/core/error.h"
#include "wmtp/tensor/cuda_error.h"

namespace wmtp::comm {
namespace {

constexpr std::chrono::milliseconds kAbortPoll{100};

[[noreturn]] void throw_lost(const std::string& what, const std::string& reason) {
  throw Error(ErrorKind::comm, "comm", fmt::format("{} failed: {}", what, reason),
              "a peer ended or the network failed; the first failing rank's log has the cause");
}

// A fault of this rank's own device is judged by its code: a bad launch or address, which the next
// collective is often the first to see, is no lost peer.
void rethrow_device_fault(const std::string& what, const std::exception& error) {
  const auto* fault = dynamic_cast<const c10::AcceleratorError*>(&error);
  if (!fault) return;
  const ErrorKind kind = kind_of_cuda_error(fault->get_error_code());
  throw Error(kind, "comm", fmt::format("{} failed: {}", what, first_line(error)),
              hint_of_cuda_error(kind));
}

class C10dWork : public Work::Body {
 public:
  struct Parts {
    c10::intrusive_ptr<c10d::Work> work;
    std::string what;
    std::shared_ptr<const std::atomic<bool>> aborted;
    std::function<void()> after;
    std::chrono::milliseconds slice;  // 0: one wait that only orders the stream
    bool tells_end = false;           // Gloo with CPU tensors: its future is complete at the end
  };
  explicit C10dWork(Parts parts) : work_(std::move(parts.work)), parts_(std::move(parts)) {
    if (!parts_.tells_end) return;
    ended_ = std::make_shared<std::atomic<Clock::rep>>(0);
    work_->getFuture()->addCallback([ended = ended_](c10::ivalue::Future&) {
      ended->store(Clock::now().time_since_epoch().count());
    });
  }

  // Gloo's abort() does not wake a blocked wait(), so a host wait is cut into slices that look at
  // the flag.
  void wait() override {
    if (!work_) return;
    while (!wait_slice()) {
    }
    if (parts_.after) parts_.after();
    parts_.after = nullptr;
    work_.reset();
  }
  bool done() override { return !work_ || work_->isCompleted(); }
  std::optional<Clock::time_point> ended() const override {
    const Clock::rep ticks = ended_ ? ended_->load() : 0;
    return ticks ? std::optional(Clock::time_point(Clock::duration(ticks))) : std::nullopt;
  }

 private:
  bool wait_slice() {
    if (parts_.aborted->load()) throw_lost(parts_.what, "the group was aborted");
    try {
      work_->wait(parts_.slice);
      return true;
    } catch (const std::exception& error) {
      rethrow_device_fault(parts_.what, error);
      // A slice may run out just as the work ends well: then the next wait returns at once.
      const bool under_way = !work_->isCompleted() || work_->isSuccess();
      if (parts_.slice.count() > 0 && under_way) return false;
      throw_lost(parts_.what, first_line(error));
    }
  }

  c10::intrusive_ptr<c10d::Work> work_;
  Parts parts_;
  std::shared_ptr<std::atomic<Clock::rep>> ended_;  // written by the backend's thread; 0: not yet
};

}  // namespace

C10dCommunicator::C10dCommunicator(Identity identity, c10::intrusive_ptr<c10d::Backend> backend,
                                   WaitStyle style)
    : Communicator(std::move(identity)),
      backend_(std::move(backend)),
      style_(style),
      aborted_(std::make_shared<std::atomic<bool>>(false)) {}

C10dCommunicator::~C10dCommunicator() {
  // The destructor of a process group joins threads that an aborted collective may hold for ever.
  if (aborted_->load()) {
    (void)backend_.release();
    return;
  }
  try {
    backend_->shutdown();
  } catch (...) {  // the group's work is done: nothing is lost
  }
}

void C10dCommunicator::abort() noexcept {
  if (aborted_->exchange(true)) return;
  try {
    backend_->abort();
  } catch (...) {  // dying anyway: the flag is what counts
  }
}

Work C10dCommunicator::launch(std::string_view kind, const Start& start,
                              std::function<void()> after) {
  return launch(kind, start, std::move(after), style_ == WaitStyle::host);
}

Work C10dCommunicator::launch_between_two(std::string_view kind, const Start& start,
                                          std::function<void()> after) {
  return launch(kind, start, std::move(after), /*in_slices=*/false);
}

Work C10dCommunicator::launch(std::string_view kind, const Start& start,
                              std::function<void()> after, bool in_slices) {
  const std::string what = fmt::format("{} in group '{}'", kind, name());
  if (aborted_->load()) throw_lost(what, "the group was aborted");
  try {
    // The backend's threads take this thread's observers along. A profile may end before they do,
    // and must not be written to then; Communicator names the collective to it.
    const at::DisableRecordFunctionGuard unprofiled;
    const auto slice = in_slices ? kAbortPoll : std::chrono::milliseconds(0);
    return Work(std::make_unique<C10dWork>(C10dWork::Parts{
        start(), what, aborted_, std::move(after), slice, in_slices && device().is_cpu()}));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    rethrow_device_fault(what, error);
    throw_lost(what, first_line(error));
  }
}

Work C10dCommunicator::do_all_gather(const Tensor& out, const Tensor& in) {
  return launch("all_gather", [&] {
    Tensor output = out.view({-1}), input = in.view({-1});
    return pg()._allgather_base(output, input);
  });
}

Work C10dCommunicator::do_reduce_scatter(const Tensor& out, const Tensor& in) {
  return launch("reduce_scatter", [&] {
    Tensor output = out.view({-1}), input = in.view({-1});
    return pg()._reduce_scatter_base(output, input);
  });
}

Work C10dCommunicator::do_all_reduce(const Tensor& in_out) {
  return launch("all_reduce", [&] {
    std::vector<Tensor> tensors{in_out};
    return pg().allreduce(tensors);
  });
}

Work C10dCommunicator::do_broadcast(const Tensor& in_out, int root) {
  return launch("broadcast", [&] {
    std::vector<Tensor> tensors{in_out};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return pg().broadcast(tensors, options);
  });
}

Work C10dCommunicator::do_gather(const Tensor& out, const Tensor& in, int root) {
  return launch("gather", [&] {
    std::vector<std::vector<Tensor>> outputs;
    if (rank() == root) outputs.push_back(out.view({world(), -1}).unbind(0));
    std::vector<Tensor> inputs{in.view({-1})};
    c10d::GatherOptions options;
    options.rootRank = root;
    return pg().gather(outputs, inputs, options);
  });
}

void C10dCommunicator::do_barrier() {
  launch("barrier", [&] { return pg().barrier(); }).wait();
}

Work C10dCommunicator::do_send(const Tensor& tensor, int to) {
  return launch_between_two("send", [&] {
    std::vector<Tensor> tensors{tensor};
    return pg().send(tensors, to, /*tag=*/0);
  });
}

Work C10dCommunicator::do_recv(const Tensor& tensor, int from) {
  return launch_between_two("recv", [&] {
    std::vector<Tensor> tensors{tensor};
    return pg().recv(tensors, from, /*tag=*/0);
  });
}

}  // namespace wmtp::comm
