// Whether the servers that a run would send to take what it sends.
#pragma once
#include <string>

#include "wmtp/config/config.h"
#include "wmtp/http/ca_bundle.h"
#include "wmtp/run/checkpoints/fetch_newest.h"

namespace wmtp::cli {

// What was found, for people; empty: the run sends nothing there.
using ProbeResult = std::string;

// With checkpoint.s3_upload: the keys, the bucket as --resume auto asks it, then one small object
// that is written and removed. `offline`: the keys alone. Errors as a run ends with them: what
// keeps it from beginning, and comm where checkpoints would not go up. BLOCKS for the network.
ProbeResult probe_s3(const run::FetchRequest& request, const http::Environment& environment,
                     bool offline);

// Error config for settings that no run could send with. A server that does not answer stops no
// run, so that it is a warning and the result. Nothing is written there. BLOCKS for the network.
ProbeResult probe_mlflow(const config::Config& config, const http::Environment& environment,
                         bool offline);

}  // namespace wmtp::cli
