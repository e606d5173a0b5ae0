#include "wmtp/run/report/validation_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

struct BestMetric {
  std::string name;
  bool higher_is_better = false;
};

// val/loss, but a critic of pairs is judged by how far it tells them apart.
BestMetric best_metric(const config::Config& config) {
  if (const auto& given = config.checkpoint.best_metric)
    return {given->name, given->mode == config::MetricMode::max};
  if (config.experiment.stage == config::Stage::critic && config.data_sampling.use_pairwise)
    return {"val/margin", true};
  return {"val/loss", false};
}

double value_of(const training::Numbers& numbers, const std::string& name) {
  if (name == "val/loss") return numbers.loss;
  std::string known = "val/loss";
  for (const auto& [key, value] : numbers.metrics) {
    if (key == name) return value;
    known += ", " + key;
  }
  throw Error(ErrorKind::config, "train",
              fmt::format("checkpoint.best_metric: this stage has no {}", name),
              fmt::format("it has {}", known));
}

bool improves(double value, double best, bool higher_is_better, double margin = 0) {
  return higher_is_better ? value > best + margin : value < best - margin;
}

void follow_plateau(const config::LrScheduler& wanted, double value, bool higher_is_better,
                    PlateauState& plateau) {
  if (!plateau.best ||
      improves(value, *plateau.best, higher_is_better, 1e-4 * std::abs(*plateau.best))) {
    plateau.best = value;
    plateau.num_waited = 0;
  } else if (++plateau.num_waited >= wanted.patience) {
    plateau.factor = std::max(plateau.factor * wanted.factor, wanted.min_lr_ratio);
    plateau.num_waited = 0;
  }
}

}  // namespace

void record_validation(const config::Config& config, const training::Numbers& numbers,
                       TrainState& state) {
  const BestMetric metric = best_metric(config);
  const double value = value_of(numbers, metric.name);
  follow_plateau(config.training.lr_scheduler, value, metric.higher_is_better, state.plateau);
  const bool best = std::isfinite(value) &&
                    (!state.best || improves(value, state.best->value, metric.higher_is_better));
  if (best) state.best = BestRecord{metric.name, value, state.step};
  state.validations_without_best = best ? 0 : state.validations_without_best + 1;
}

}  // namespace wmtp::run
