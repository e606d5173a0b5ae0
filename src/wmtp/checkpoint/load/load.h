// Which checkpoint to go on from: the newest that verifies, the same on all ranks.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/checkpoint/kv_exchange.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

struct ChooseRequest {
  storage::FileSystem& files;
  KvExchange& vote;
  std::filesystem::path save_dir;
  std::string model;
  std::string only = {};  // this name or an error: nothing is set aside, nothing else is tried
  // Not empty: those alone that this run has saved; if there are none, that is the answer.
  std::string of_run = {};
  Verify verify = Verify::read;
  int rank = 0, world_size = 1;
  std::string attempt = "0";  // as in SaveContext
  std::chrono::milliseconds timeout{600'000};
  int num_reads = 3;  // a failing storage is asked so often before it counts as broken
  std::chrono::milliseconds read_pause{200};
  bool allow_fresh_start = false;  // checkpoints exist, none verifies: start over
};

struct Choice {
  std::string name;
  std::int64_t step = 0;
};

// COLLECTIVE through the vote. BLOCKS. The ranks share the checking, rank 0 decides. A damaged one
// is set aside as .bad-<k> with a warning that names file and byte range, and the next is tried.
// Nothing: there is no checkpoint. Errors, on all ranks: ErrorKind::checkpoint when some exist, or
// were set aside by an earlier start, and none verifies; ErrorKind::io when the storage fails;
// ErrorKind::config for a newer or foreign one, which is left as it is, and where the folder holds
// checkpoints of other models alone.
std::optional<Choice> choose_checkpoint(const ChooseRequest& request);

}  // namespace wmtp::checkpoint
