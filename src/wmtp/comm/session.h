// Everything one rank needs of the others, for the commands: launch environment, store, watchdog
// and communicators: two over all ranks, and those of groups of ranks where the model is sharded
// in groups. The order of a start: start() -> agree() -> connect() -> work -> finish().
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/comm/agreement.h"
#include "wmtp/comm/communicator.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/comm/launch/rendezvous.h"
#include "wmtp/comm/watch/watchdog.h"
#include "wmtp/core/error.h"

namespace wmtp::comm {

struct SessionOptions {
  RendezvousOptions rendezvous;
  std::chrono::milliseconds agreement_timeout = std::chrono::seconds(120);
  std::string backend = "auto";  // auto | gloo | nccl; auto = nccl on CUDA
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::filesystem::path run_dir = {};  // of hang-<step>.json; may be empty
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  std::chrono::milliseconds dead_after = std::chrono::seconds(5);
  std::function<void(const Failure&)> leave = {};  // see WatchdogOptions; given by cli/main
  NcclFactory nccl = nullptr;                      // from the GPU plugin
};

// The ranks in groups of equal size, contiguous: a communicator of the own group for gathers, one
// for reductions, and one between the ranks of equal position in all groups. BORROWED from the
// session; null: nobody else is in it.
struct ShardGroups {
  Communicator* gather = nullptr;
  Communicator* reduce = nullptr;
  Communicator* replicate = nullptr;
};

class ProcessGroupSession {
 public:
  // COLLECTIVE, BLOCKS: store, hello, watchdog. A single process costs nothing but an object.
  static std::unique_ptr<ProcessGroupSession> start(LaunchEnv launch, SessionOptions options);
  ~ProcessGroupSession();  // without finish(): the groups are given up, nobody is waited for

  const LaunchEnv& launch() const { return launch_; }
  int rank() const { return launch_.rank; }
  int world() const { return launch_.world; }
  const Store& store() const { return rendezvous_.store; }
  const std::string& where() const { return rendezvous_.where; }
  const std::string& backend() const { return backend_; }  // single, gloo, nccl
  Watchdog& watchdog() { return *watchdog_; }

  // COLLECTIVE, BLOCKS. World, LibTorch version, device type and backend are added to `facts`.
  std::vector<std::string> agree(Facts facts, const std::string& scope = "start");

  // COLLECTIVE, BLOCKS. Both groups, connected and verified by a sum of ranks.
  void connect();
  Communicator& gather_group();  // REQUIRES connect()
  Communicator& reduce_group();
  // COLLECTIVE and BLOCKS at the first call with a size between 1 and world(), which connects three
  // groups; one group of all and groups of one rank are those of connect(). REQUIRES connect(), a
  // size that divides world(), and the same one in every call.
  ShardGroups shard_groups(int size);
  // COLLECTIVE, BLOCKS. One more group, e.g. for a background thread; owned by the caller.
  std::unique_ptr<Communicator> make_group(const std::string& name);
  // COLLECTIVE over the store, BLOCKS: after the first step. Over all communicators.
  void check_order();

  // One code for all: what to leave with after `error`. An error of our own is posted for the
  // others; an Error comm waits 0.5 s for another rank's post and takes it over, else it is 75.
  // The first call counts. BLOCKS for a store call. The process then has 30 s to end by itself.
  Failure broadcast_failure(const Error& error);
  // broadcast_failure(), then aborts the groups.
  Failure agree_on_failure(const Error& error);

  // COLLECTIVE, BLOCKS. Orderly end: groups closed in order, the store last.
  void finish();

 private:
  ProcessGroupSession(LaunchEnv launch, SessionOptions options);
  void abort_groups() noexcept;
  struct Membership {  // of this rank in a group, which meets in a store of its own
    int rank = 0, world = 1;
    Store store = {};
  };
  std::unique_ptr<Communicator> make_group(const std::string& name, const Membership& place);
  std::vector<Communicator*> groups() const;  // those that are connected

  LaunchEnv launch_;
  SessionOptions options_;
  std::string backend_;
  Rendezvous rendezvous_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<Communicator> gather_, reduce_;
  std::unique_ptr<Communicator> shard_gather_, shard_reduce_, replicate_;
  int shard_group_size_ = 0;  // of the three
  std::optional<Failure> told_;
  bool finished_ = false;
};

}  // namespace wmtp::comm
