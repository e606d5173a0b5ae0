// Where else a run can be seen, as its own files tell.
#pragma once
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// The run on its MLflow server, once that has been reached, and the folder for TensorBoard.
// REQUIRES a run with its configuration. Reads the spool inside the run's folder alone.
std::vector<RunLink> recorded_links(const RunData& run);

}  // namespace wmtp::tracking
