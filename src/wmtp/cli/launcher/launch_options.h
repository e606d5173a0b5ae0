// What `wmtp launch` was asked for.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/comm/launch/static_nodes.h"

namespace wmtp::cli {

struct LaunchOptions {
  int num_ranks = 1;        // on this node
  comm::StaticNodes nodes;  // of several, each has as many ranks and a launcher of its own
  int first_rank() const { return nodes.node * num_ranks; }
  int max_restarts = 3;
  std::chrono::duration<double> grace{120};      // for saving, after a forwarded stop signal
  std::chrono::duration<double> peer_grace{10};  // for the peers of a failed rank to leave
  std::filesystem::path log_dir;                 // empty: no copies
  bool tee_all = false;                          // show all lines of all ranks
  bool bind_numa = false;
  bool json = false;                           // stdout carries records: no prefixes there
  std::vector<std::string> extra_environment;  // K=V
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;  // argv of the ranks, with argv[0]
  // The newest step a restart would resume from; nothing: not known. Unset: as the run's notes say
  // (run_notes.h).
  std::function<std::optional<std::int64_t>()> newest_committed_step;
};

}  // namespace wmtp::cli
