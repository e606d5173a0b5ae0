// Private to comm/: what the bodies over c10d's process groups share. Includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <memory>
#include <string>

#include "wmtp/comm/communicator.h"

namespace wmtp::comm {

class C10dCommunicator : public Communicator {
 public:
  ~C10dCommunicator() override;
  void abort() noexcept override;

 protected:
  // host: wait() blocks the host (Gloo); stream: it makes the current stream wait (NCCL).
  enum class WaitStyle { host, stream };
  C10dCommunicator(Identity identity, c10::intrusive_ptr<c10d::Backend> backend, WaitStyle style);

  Work do_all_gather(const Tensor& out, const Tensor& in) override;
  Work do_reduce_scatter(const Tensor& out, const Tensor& in) override;
  Work do_all_reduce(const Tensor& in_out) override;
  Work do_broadcast(const Tensor& in_out, int root) override;
  Work do_gather(const Tensor& out, const Tensor& in, int root) override;
  void do_barrier() override;
  Work do_send(const Tensor& tensor, int to) override;
  Work do_recv(const Tensor& tensor, int from) override;

  // `after` runs once, in the first wait() that succeeds.
  using Start = std::function<c10::intrusive_ptr<c10d::Work>()>;
  Work launch(std::string_view kind, const Start& start, std::function<void()> after = {});
  // Of send and receive: Gloo closes all connections of a group when a wait for one runs out, so
  // that these are waited for in one piece; who is stuck there is the watchdog's.
  Work launch_between_two(std::string_view kind, const Start& start,
                          std::function<void()> after = {});
  c10d::Backend& pg() { return *backend_; }

 private:
  Work launch(std::string_view kind, const Start& start, std::function<void()> after,
              bool in_slices);

  c10::intrusive_ptr<c10d::Backend> backend_;
  WaitStyle style_;
  std::shared_ptr<std::atomic<bool>> aborted_;
};

}  // namespace wmtp::comm
