// What a run says of its data in environment.json, for the three forms of the report.
#pragma once
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

std::vector<std::string> data_header();
// A row for each set that is told of, beside the header: its name, rows, lengths, what was cut, and
// how many of the drawn rows are right and wrong. "-" where that is not known.
std::vector<std::vector<std::string>> data_cells(const RunData& run);
OrderedJson data_json(const RunData& run);  // {"train": {"rows": 10, ...}}

}  // namespace wmtp::tracking
