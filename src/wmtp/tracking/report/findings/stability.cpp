// Why is this run unstable: steps that were thrown away, losses that stand out or rise, gradients
// that are cut.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/tracking/report/findings/measures.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {
namespace {

// runtime.loss_spike judges from the 20th loss on.
constexpr std::int64_t kFirstJudgedStep = 20;

// The least that the loss had come to before its last quarter. Of the first quarter its first
// reports count, since a rate that is far too high has ruined the rest of it already.
double least_before(const std::vector<double>& losses) {
  const std::size_t quarter = losses.size() / 4;
  const auto part = [&losses](std::size_t begin, std::size_t size) {
    const auto first = losses.begin() + static_cast<std::ptrdiff_t>(begin);
    return *median({first, first + static_cast<std::ptrdiff_t>(size)});
  };
  return std::min({part(0, kLeastReports), part(quarter, quarter), part(2 * quarter, quarter)});
}

// How much larger than another one a loss may be by chance: by its noise from report to report.
double largest_chance(const std::vector<double>& losses) {
  std::vector<double> logarithms;
  for (const double loss : losses) logarithms.push_back(std::log(loss));
  return std::exp(kLossRiseNoise * step_noise(logarithms));
}

}  // namespace

Look look_at_bad_steps(const RunData& run) {
  const auto skipped = run.last("train/skipped_steps");
  const auto loss = run.last("train/loss");
  if (!skipped || !loss || run.last_step <= 0) return {};
  const double share = *skipped / static_cast<double>(run.last_step);
  if (share <= kBadStepShare && std::isfinite(*loss)) return {.has_numbers = true};
  return {true, Evidence{fmt::format("{:.0f} of {} steps were thrown away: their loss or gradient "
                                     "was not finite{}",
                                     *skipped, run.last_step,
                                     std::isfinite(*loss) ? "" : ", nor is the last loss"),
                         {{"train/skipped_steps", *skipped}, {"train/loss", *loss}}}};
}

Look look_at_spikes(const RunData& run) {
  const auto spikes = run.last("train/loss_spikes");
  if (!spikes) return {.has_numbers = run.last_step >= kFirstJudgedStep};
  if (*spikes < kSpikes) return {.has_numbers = true};
  const Series& told = *run.find("train/loss_spikes");
  const std::vector<double> z = finite_values(run.find("train/loss_spike_z"));
  Evidence evidence{fmt::format("the loss leapt far above those before it {:.0f} times, last at "
                                "step {}",
                                *spikes, told.back().step),
                    {{"train/loss_spikes", *spikes}}};
  if (!z.empty())
    evidence.numbers.emplace_back("train/loss_spike_z", *std::max_element(z.begin(), z.end()));
  return {true, std::move(evidence)};
}

Look look_at_learning_rate(const RunData& run) {
  const std::vector<double> losses = plain_losses(run);
  if (losses.size() < kLeastLosses || *std::min_element(losses.begin(), losses.end()) <= 0)
    return {};
  const double late = *median(last_quarter(losses)), least = least_before(losses);
  if (late <= least * std::max(kLossRise, largest_chance(losses))) return {.has_numbers = true};
  Evidence evidence{fmt::format("the loss rose from {:.4g} to {:.4g}, the median of its last "
                                "quarter",
                                least, late),
                    {{"train/loss", late}, {"least train/loss before", least}}};
  const std::vector<double> rates = finite_values(run.find("train/learning_rate"));
  if (!rates.empty())
    evidence.numbers.emplace_back("train/learning_rate (largest)",
                                  *std::max_element(rates.begin(), rates.end()));
  return {true, std::move(evidence)};
}

Look look_at_gradient_clipping(const RunData& run) {
  std::vector<double> ratios = finite_values(run.find("train/grad_clip_ratio"));
  ratios.erase(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 4));
  if (ratios.size() < kLeastReports) return {};
  const auto cut = std::count_if(ratios.begin(), ratios.end(),
                                 [](double ratio) { return ratio < kClippedBelow; });
  const double share = static_cast<double>(cut) / static_cast<double>(ratios.size());
  if (share <= kClippedShare) return {.has_numbers = true};
  const double typical = *median(ratios);
  Evidence evidence{fmt::format("in {:.0f} % of the steps after the first quarter the gradient was "
                                "cut to less than {:.0f} % of its length, typically to {:.2g} %",
                                share * 100, kClippedBelow * 100, typical * 100),
                    {{"train/grad_clip_ratio", typical}}};
  if (const auto norm = median(finite_values(run.find("train/grad_norm_pre_clip"))))
    evidence.numbers.emplace_back("train/grad_norm_pre_clip", *norm);
  return {true, std::move(evidence)};
}

}  // namespace wmtp::tracking
