// Which metrics are drawn together. The page shows a group for a run that has any of its metrics.
#pragma once
#include <string>
#include <vector>

#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/recorded/run_data.h"
#include "wmtp/tracking/report/x_axis.h"

namespace wmtp::tracking {

struct CurveGroup {
  std::string title;
  // Names, with '#' for any number: "train/head#_loss".
  std::vector<std::string> metrics;
  bool marks_saves = false;  // with the steps that were saved, and the best one
  bool is_loss = false;      // also over tokens and time, logarithmic, and smoothed
};

const std::vector<CurveGroup>& curve_groups();
std::string curve_anchor(std::string_view title);  // where a group is on the page

// The group of one run. What a step and a validation say of the same thing has one colour.
// Without curves: nothing there.
LineChart chart_of(const CurveGroup& group, const RunData& run, XAxis axis = XAxis::step);

// The group of several runs: a drawing for each thing that is measured, with a colour for each run.
std::vector<LineChart> overlays_of(const CurveGroup& group, const std::vector<RunData>& runs,
                                   XAxis axis = XAxis::step);

}  // namespace wmtp::tracking
