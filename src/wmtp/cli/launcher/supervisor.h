// `wmtp launch`: starts N local ranks, restarts them as the policy allows, and answers with one
// exit code. Nothing it started outlives it.
#pragma once
#include "wmtp/cli/launcher/launch_options.h"

namespace wmtp::cli {

// BLOCKS until the job has ended. REQUIRES the main thread and no other threads. The exit code of
// the job: 0, that of the first rank to fail, 128 + s for a rank that died by signal s.
int supervise(const LaunchOptions& options);

}  // namespace wmtp::cli
