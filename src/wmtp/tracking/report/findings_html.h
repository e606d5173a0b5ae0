// What was found of a run, for the page.
#pragma once
#include <string>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// A list; numbers lead to the drawing on the page that shows them, where it has one.
std::string findings_html(const RunData& run);

}  // namespace wmtp::tracking
