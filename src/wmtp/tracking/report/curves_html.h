// The drawings of one run or of several, with the switches of the losses.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

// Losses come first, drawn over steps, tokens and time, linear and logarithmic; radio buttons and
// style sheets choose which is seen, without scripts. One run: a grid of all drawings. Several:
// laid over each other, a row for each group.
std::string curves_html(const std::vector<RunData>& runs);

}  // namespace wmtp::tracking
