// Which metrics are drawn together. The page shows a group for a run that has any of its metrics.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/run_data.h"

namespace wmtp::tracking {

struct CurveGroup {
  std::string title;
  // Names, with '#' for any number: "train/head#_loss".
  std::vector<std::string> metrics;
};

const std::vector<CurveGroup>& curve_groups();
LineChart chart_of(const CurveGroup& group, const RunData& run);  // without curves: nothing there

// One metric of several runs in one drawing.
LineChart overlay_of(const std::string& metric, const std::vector<RunData>& runs);

// The value estimates along the tokens of a sample; none where it has no values.
std::optional<LineChart> value_chart(const DecodedSample& sample);

}  // namespace wmtp::tracking
