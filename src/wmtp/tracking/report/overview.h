// What the three forms of the report share: one line per run, and what differs between runs.
#pragma once
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// "ended", "ended with 75: lost rank 1", or "not ended": it runs, or was killed without a word.
std::string state_text(const RunData& run);

std::vector<std::string> overview_header();
std::vector<std::string> overview_cells(const RunData& run);  // beside the header

// (key, value in each run) of every configuration key that is not the same in all. Values that
// follow from the folder or the name of their run are the same where the rest of them is.
std::vector<std::vector<std::string>> config_differences(const std::vector<RunData>& runs);

// What was found comes first; what differs between several runs comes last.
std::string report_text(const std::vector<RunData>& runs, bool color);
OrderedJson report_json(const std::vector<RunData>& runs);

}  // namespace wmtp::tracking
