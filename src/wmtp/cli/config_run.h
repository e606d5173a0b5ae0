// A rank of a command that runs as a configuration says.
#pragma once
#include "wmtp/cli/rank_run.h"
#include "wmtp/config/load.h"
#include "wmtp/run/plan/run_context.h"

namespace wmtp::cli {

// The rank's device, meeting place and limits.
RankRun make_run(const comm::LaunchEnv& launch, const config::Config& config);

// Where that rank's part of the run takes place.
run::RunContext run_context(const config::Config& config, const comm::LaunchEnv& launch,
                            c10::Device device);

// Of this start, the same on all ranks: votes of another start never count for it. COLLECTIVE.
std::string start_id_of(comm::ProcessGroupSession& group);
// The same at every start of one job, where the launcher tells jobs apart; else of this start
// alone.
std::string run_id_of(const comm::LaunchEnv& launch, const std::string& start_id);

// What all ranks must have alike: the build, the configuration, and what it takes from the
// launcher.
comm::Facts facts_of(const config::ResolvedConfig& resolved, const comm::LaunchEnv& launch,
                     c10::Device device);

// A failure before the meeting: meets only to tell the others, so that none waits in vain. Alone it
// throws `error`.
int fail_together(const Session& session, const comm::LaunchEnv& launch, const Error& error);

}  // namespace wmtp::cli
