// What the rules read of a run: means and medians of its curves, and single facts.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "wmtp/tracking/report/recorded/run_data.h"

namespace wmtp::tracking {

std::optional<double> median(std::vector<double> values);  // absent: there are none
std::optional<double> mean(const std::vector<double>& values);

// The values that are finite, by step; none where the metric is absent (null).
std::vector<double> finite_values(const Series* points);
// The losses of the steps without token weights, whose mean moves the weighted loss: those of
// train/unweighted_ce_loss, or of train/loss where there are no weights.
std::vector<double> plain_losses(const RunData& run);
// Finite values without the first report, whose step fills the pipeline.
std::vector<double> settled_values(const Series* points);
// The last quarter of the values, at least one where there is any.
std::vector<double> last_quarter(const std::vector<double>& values);
// The spread from one value to the next, whatever the trend: 1.4826 x the median of the distances,
// over sqrt(2), which is the standard deviation of independent noise. 0 of fewer than two.
double step_noise(const std::vector<double>& values);

// Of environment.json, by its flat key (`data.train.correct`); absent where it is no number.
std::optional<double> environment_number(const RunData& run, std::string_view key);

}  // namespace wmtp::tracking
