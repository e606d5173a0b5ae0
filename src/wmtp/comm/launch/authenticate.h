// Private to comm/: how a meeting that fails ends, with one error for all ranks that came.
#pragma once
#include <chrono>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/comm/store.h"
#include "wmtp/core/error.h"

namespace wmtp::comm {

// BLOCKS. This rank cannot take part: says so to the others, who leave with the same error, and
// throws it, or what another rank had said before. Where this rank serves the store it waits, for a
// while and `timeout` at most, until all have read it.
[[noreturn]] void refuse_to_meet(const Store& run_store, const LaunchEnv& launch,
                                 std::chrono::milliseconds timeout, const Error& error);

// Outside of any run's prefix: a rank that met a store of another run (or none of wmtp at all)
// where it looked for its own leaves its number there. REQUIRES a store without prefix.
void note_turned_away(const Store& foreign, int rank);

}  // namespace wmtp::comm
