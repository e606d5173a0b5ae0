// `wmtp train --dry-run`: a run tried out in a few seconds, of which nothing is left.
#pragma once
#include <optional>
#include <string>

#include "wmtp/cli/command.h"
#include "wmtp/cli/trial/trial_folder.h"
#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/run/trainer.h"
#include "wmtp/tracking/console.h"

namespace wmtp::cli {

// Rank 0's, beside the folders of the run.
struct TrialFolders {
  std::optional<TrialFolder> run, saves;
  void remove() noexcept;  // THREADS: any
};

struct DryRunRequest {
  std::string config_file;
  std::string start_id;  // the same on all ranks
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  tracking::ConsoleOptions console;
  run::RunRequests requests;
  bool allow_fresh_start = false, force_unlock = false, offline = false;
};

// COLLECTIVE, BLOCKS. Folders and locks, files, space, servers, then rehearse(). What the run would
// end with is thrown. Returns the exit code: 0, or 81 where a stop was asked for. REQUIRES
// connect(). `folders` outlive the call: whoever ends the process removes them.
int dry_run(const Session& session, comm::ProcessGroupSession& group,
            const config::ResolvedConfig& resolved, const DryRunRequest& request,
            TrialFolders& folders);

}  // namespace wmtp::cli
