// A rank of a command that runs as a configuration says.
#pragma once
#include "wmtp/cli/rank_run.h"
#include "wmtp/config/load.h"

namespace wmtp::cli {

// The rank's device, meeting place and limits.
RankRun make_run(const comm::LaunchEnv& launch, const config::Config& config);

// What all ranks must have alike: the build, the configuration, and what it takes from the
// launcher.
comm::Facts facts_of(const config::ResolvedConfig& resolved, const comm::LaunchEnv& launch,
                     c10::Device device);

// A failure before the meeting: meets only to tell the others, so that none waits in vain. Alone it
// throws `error`.
int fail_together(const Session& session, const comm::LaunchEnv& launch, const Error& error);

}  // namespace wmtp::cli
