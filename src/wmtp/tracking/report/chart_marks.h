// The marks of a drawing: restarts, saves and the best step.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/chart_frame.h"

namespace wmtp::tracking {

// Those inside the frame; where saves stand close, not each of them.
std::vector<Mark> shown_marks(const ChartFrame& frame, const std::vector<Mark>& marks);
std::string draw_mark(const ChartFrame& frame, const Mark& mark);
// Items of a list: of restarts and saves one for all, each best with its number.
std::string mark_legend(const std::vector<Mark>& marks);

}  // namespace wmtp::tracking
