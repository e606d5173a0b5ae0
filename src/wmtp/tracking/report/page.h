// The report as one self-contained HTML page: no scripts, no network, also well-formed XML.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// What was found comes first. The curves of several runs are laid over each other, and the
// differing keys of their configurations are listed. REQUIRES: at least one run.
std::string report_page(const std::vector<RunData>& runs);

}  // namespace wmtp::tracking
