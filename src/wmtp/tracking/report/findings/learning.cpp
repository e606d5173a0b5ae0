// Why is this run not learning: validations that stand still or turn, weights that say nothing, a
// critic that guesses, data that is not what it seems.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/tracking/report/findings/measures.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {
namespace {

bool still_falls(const std::vector<double>& losses) {
  if (losses.size() < kLeastLosses) return false;
  const auto half = losses.begin() + static_cast<std::ptrdiff_t>(losses.size() / 2);
  return *median(last_quarter(losses)) < *median({losses.begin(), half});
}

// The last value that a step of training stands behind; that of step 0 is of an untrained critic.
std::optional<double> last_trained(const RunData& run, const char* metric) {
  const Series* points = run.find(metric);
  if (!points || points->back().step <= 0) return std::nullopt;
  return points->back().value;
}

}  // namespace

Look look_at_flat_loss(const RunData& run) {
  const std::vector<double> losses = finite_values(run.find("val/loss"));
  if (losses.size() < kLeastValidations || losses.front() == 0) return {};
  const double best = *std::min_element(losses.begin() + 1, losses.end());
  const double change = best / losses.front() - 1;
  if (std::abs(change) >= kFlatLoss) return {.has_numbers = true};
  Evidence evidence{fmt::format("{} validations and no change: {:.6g} at first, {:.6g} at best",
                                losses.size(), losses.front(), best),
                    {{"val/loss (first)", losses.front()}, {"val/loss (best)", best}}};
  const std::vector<double> rates = finite_values(run.find("train/learning_rate"));
  if (!rates.empty())
    evidence.numbers.emplace_back("train/learning_rate (largest)",
                                  *std::max_element(rates.begin(), rates.end()));
  return {true, std::move(evidence)};
}

Look look_at_rising_validation(const RunData& run) {
  const std::vector<double> losses = finite_values(run.find("val/loss"));
  const std::vector<double> trained = plain_losses(run);
  if (losses.size() < kLeastValidations || trained.size() < kLeastLosses) return {};
  const double best = *std::min_element(losses.begin(), losses.end()), last = losses.back();
  if (last <= best + (kValidationRise - 1) * std::abs(best) || !still_falls(trained))
    return {.has_numbers = true};
  return {true, Evidence{fmt::format("the loss of training falls, that of validation has risen "
                                     "from {:.4g} to {:.4g}",
                                     best, last),
                         {{"val/loss (best)", best},
                          {"val/loss (last)", last},
                          {"train/loss", *median(last_quarter(trained))}}}};
}

// Of rho1 the entropy follows from rho1.k_percent, which somebody chose.
Look look_at_weight_entropy(const RunData& run) {
  const std::vector<double> entropies = finite_values(run.find("weight/entropy"));
  if (entropies.size() < kLeastReports || run.stage == "rho1") return {};
  const double late = *median(last_quarter(entropies));
  if (late >= kCollapsedEntropy) return {.has_numbers = true};
  Evidence evidence{fmt::format("the weights' entropy is {:.2f}, where 1 is that of equal weights: "
                                "few tokens carry the loss",
                                late),
                    {{"weight/entropy", late}}};
  for (const char* name : {"weight/max", "weight/mean"})
    if (const auto value = median(last_quarter(finite_values(run.find(name)))))
      evidence.numbers.emplace_back(name, *value);
  return {true, std::move(evidence)};
}

Look look_at_weight_clipping(const RunData& run) {
  const std::vector<double> ratios = finite_values(run.find("weight/clipping_ratio"));
  if (ratios.size() < kLeastReports) return {};
  const double late = *median(last_quarter(ratios));
  if (late <= kWeightsClippedShare) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{:.0f} % of the tokens have a weight that was cut to a bound",
                                     late * 100),
                         {{"weight/clipping_ratio", late}}}};
}

Look look_at_critic(const RunData& run) {
  const auto auc = last_trained(run, "val/auc");
  const auto accuracy = last_trained(run, "val/pairwise_accuracy");
  if (!auc && !accuracy) return {};
  const double told = auc.value_or(accuracy.value_or(0));
  if (told > kChance) return {.has_numbers = true};
  Evidence evidence{
      fmt::format("the critic tells right answers from wrong ones in {:.0f} % of the "
                  "cases; a coin does in 50 %",
                  told * 100)};
  if (auc) evidence.numbers.emplace_back("val/auc", *auc);
  if (accuracy) evidence.numbers.emplace_back("val/pairwise_accuracy", *accuracy);
  return {true, std::move(evidence)};
}

Look look_at_correct_rows(const RunData& run) {
  const auto right = environment_number(run, "data.train.correct");
  const auto wrong = environment_number(run, "data.train.incorrect");
  if (!right || !wrong || *right + *wrong <= 0) return {};
  const double share = *right / (*right + *wrong);
  if (share >= kCorrectShare) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{:.0f} of {:.0f} rows that are drawn are correct: {:.1f} %",
                                     *right, *right + *wrong, share * 100),
                         {{"data.train.correct", *right}, {"data.train.incorrect", *wrong}}}};
}

Look look_at_truncation(const RunData& run) {
  const auto right = environment_number(run, "data.train.truncated_rows.correct");
  const auto wrong = environment_number(run, "data.train.truncated_rows.incorrect");
  const auto candidates = environment_number(run, "data.train.candidates");
  if (!right || !wrong || !candidates) return {};
  const double rows = *candidates +
                      environment_number(run, "data.train.rows_without_target").value_or(0) +
                      environment_number(run, "data.train.rows_dropped_too_long").value_or(0);
  const double cut = *right + *wrong, share = rows > 0 ? cut / rows : 0;
  if (share <= kTruncatedShare) return {.has_numbers = true};
  const std::string_view how = config_value(run, "dataset.truncate");
  return {true,
          Evidence{
              fmt::format("{:.0f} of {:.0f} rows are longer than dataset.max_length: {}", cut, rows,
                          how == "drop"            ? "they are left out"
                          : how == "keep_response" ? "their prompts lose their beginning"
                                                   : "their answers lose their end"),
              {{"data.train.truncated_rows", cut}, {"data.train.rows that are good", rows}}}};
}

}  // namespace wmtp::tracking
