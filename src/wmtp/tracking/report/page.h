// The report as one self-contained HTML page: no scripts, no network, also well-formed XML.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/report/run_data.h"

namespace wmtp::tracking {

// Several runs stand side by side. With `compare`, their curves are also laid over each other and
// the differing keys of their configurations listed. REQUIRES: at least one run.
std::string report_page(const std::vector<RunData>& runs, bool compare);

}  // namespace wmtp::tracking
