// Who a run is to a tracking server: the same after every resume, whatever machine it goes on.
#pragma once
#include <string>

#include "wmtp/comm/session.h"
#include "wmtp/config/config.h"

namespace wmtp::run {

// COLLECTIVE. `saved`: of the checkpoint the run goes on from. Without one, the run in the spool
// that was killed before its first checkpoint goes on, unless a new one is asked for
// (checkpoint.resume: never); else a new one of this start. `saved` as it is where MLflow is off.
std::string agree_run_uid(const config::Config& config, const std::string& saved,
                          const std::string& start_id, comm::ProcessGroupSession& session);

}  // namespace wmtp::run
