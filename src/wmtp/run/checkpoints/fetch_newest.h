// What the bucket of storage.s3 has and save_dir has not, for a run that goes on where nothing of
// it is left: on another machine, or after a lost disk.
#pragma once
#include <string>

#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"

namespace wmtp::run {

struct FetchRequest {
  const config::Config& config;
  std::string model;
  std::string start_id;  // as in CheckpointOptions
  // A bucket that does not answer lets a run begin at step 0 only where this is set: the
  // checkpoints of that run may be there.
  bool allow_fresh_start = false;
};

// COLLECTIVE through the store, BLOCKS. Rank 0 pulls the newest whole checkpoint of a step that is
// later than all in save_dir, if there is one. One that is damaged is told, and the one before it
// is tried. A bucket that does not answer or refuses is a warning, and where save_dir holds nothing
// an error on all ranks: ErrorKind::comm or config.
void fetch_newest(const FetchRequest& request, comm::ProcessGroupSession& session);

// Whether the bucket lets a run begin: Errors and warnings as fetch_newest has them, and what it
// would fetch is returned (empty: nothing). BLOCKS; nothing is pulled.
std::string look_for_newer(const FetchRequest& request);

}  // namespace wmtp::run
