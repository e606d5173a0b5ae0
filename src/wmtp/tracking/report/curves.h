// Which metrics are drawn together. The page shows a group for a run that has any of its metrics.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

struct CurveGroup {
  std::string title;
  // Names, with '#' for any number: "train/head#_loss".
  std::vector<std::string> metrics;
  bool marks_saves = false;  // with the steps that were saved, and the best one
};

const std::vector<CurveGroup>& curve_groups();
std::string curve_anchor(std::string_view title);  // where a group is on the page

// The group of one run. What a step and a validation say of the same thing has one colour.
LineChart chart_of(const CurveGroup& group, const RunData& run);  // without curves: nothing there

// The group of several runs: a drawing for each thing that is measured, with a colour for each run.
std::vector<LineChart> overlays_of(const CurveGroup& group, const std::vector<RunData>& runs);

// The value estimates along the tokens of a sample; none where it has no values.
std::optional<LineChart> value_chart(const DecodedSample& sample);

}  // namespace wmtp::tracking
