// Collectives over one group of ranks: one interface, three bodies (single, gloo, nccl). Sums only;
// divisions are the caller's. Several communicators over one store are independent queues:
// collectives of one run in the order started, those of two overlap. THREADS: the collectives of
// one communicator are started by one thread at a time; abort(), log() and meter() may be called
// from any thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/comm/collective_log.h"
#include "wmtp/comm/collective_meter.h"
#include "wmtp/comm/work.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::comm {

// All functions but the accessors, send() and recv() are COLLECTIVE: all ranks, same order, same
// sizes and dtypes. Tensors are contiguous, on device(); empty ones are allowed everywhere and cost
// no message. `label` shows in the watchdog's report and in the order comparison. Those
// from all_gather() to broadcast() may be called in work that is recorded
// (tensor/recorded_pieces.h), and their Work waited for there: each replay starts the collective
// and waits for it, upon the same tensors.
class Communicator {
 public:
  static constexpr int kAllRanks = -1;

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  const std::string& name() const { return name_; }
  c10::Device device() const { return device_; }
  virtual std::string_view backend() const = 0;  // single, gloo, nccl

  // out = concatenation of every rank's `in`. REQUIRES out.numel() == world * in.numel().
  Work all_gather(const Tensor& out, const Tensor& in, std::string_view label = {});
  // out = this rank's slice of the sum of all `in`. REQUIRES in.numel() == world * out.numel();
  // `out` may be this rank's slice of `in`: nothing is copied then, and the rest of `in` is
  // scratch.
  Work reduce_scatter(const Tensor& out, const Tensor& in, std::string_view label = {});
  Work all_reduce(const Tensor& in_out, std::string_view label = {});
  Work broadcast(const Tensor& in_out, int root, std::string_view label = {});
  // Each send() meets a recv() of the other rank, in their order. The meter counts neither.
  Work send(const Tensor& tensor, int to, std::string_view label = {});
  Work recv(const Tensor& tensor, int from, std::string_view label = {});
  // BLOCKS the host until every rank has come here.
  void barrier(std::string_view label = {});
  // BLOCKS. Everybody's bytes by rank, on `root` (elsewhere the result is empty) or on all ranks.
  std::vector<std::string> gather_bytes(std::string_view mine, int root = kAllRanks,
                                        std::string_view label = {});

  // Gives up all collectives under way: their wait() throws within 0.2 s. The group is dead
  // afterwards.
  virtual void abort() noexcept = 0;

  const std::shared_ptr<CollectiveLog>& log() const { return log_; }
  CollectiveMeter& meter() const { return *meter_; }

 protected:
  struct Identity {
    std::string name;
    int rank = 0, world = 1;
    c10::Device device = c10::Device(c10::DeviceType::CPU);
  };
  explicit Communicator(Identity identity);

  // Bodies see only non-empty, checked tensors.
  virtual Work do_all_gather(const Tensor& out, const Tensor& in) = 0;
  virtual Work do_reduce_scatter(const Tensor& out, const Tensor& in) = 0;
  virtual Work do_all_reduce(const Tensor& in_out) = 0;
  virtual Work do_broadcast(const Tensor& in_out, int root) = 0;
  virtual Work do_gather(const Tensor& out, const Tensor& in, int root) = 0;  // out: root only
  virtual void do_barrier() = 0;
  // Error internal unless the body has them: a rank alone has nobody to send to.
  virtual Work do_send(const Tensor& tensor, int to);
  virtual Work do_recv(const Tensor& tensor, int from);

 private:
  void check(const Tensor& tensor, std::string_view kind) const;
  bool is_counted() const { return backend() != "single"; }
  Work started(CollectiveKind kind, const Tensor& tensor, std::string_view label,
               std::function<Work()> start, std::optional<int> root = {});
  Work started_now(CollectiveKind kind, const Tensor& tensor, std::string_view label,
                   const std::function<Work()>& start, std::optional<int> root);
  Work started_between_two(std::string_view kind, const Tensor& tensor, int other,
                           std::string_view label, const std::function<Work()>& start);

  std::string name_;
  int rank_, world_;
  c10::Device device_;
  std::shared_ptr<CollectiveLog> log_;
  std::shared_ptr<CollectiveMeter> meter_;
};

}  // namespace wmtp::comm
