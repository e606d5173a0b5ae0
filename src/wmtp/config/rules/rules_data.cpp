#include <fmt/format.h>

#include <algorithm>

#include "wmtp/config/rules/rules.h"

namespace wmtp::config {
namespace {

bool has_bin(const DataSampling& sampling, const std::string& name) {
  return std::any_of(sampling.difficulty_bins.begin(), sampling.difficulty_bins.end(),
                     [&](const DifficultyBin& bin) { return bin.name == name; });
}

void check_weights(const RuleContext& context, const char* key, const DifficultyWeights& weights) {
  for (const auto& [name, weight] : weights)
    if (!has_bin(context.config.data_sampling, name))
      context.fail({key, "data_sampling.difficulty_bins"},
                   fmt::format("\"{}\" is no bin of data_sampling.difficulty_bins", name));
}

void check_schedule(const RuleContext& context) {
  constexpr const char* kKey = "data_sampling.curriculum_schedule";
  double expected = 0;
  for (const CurriculumPhase& phase : context.config.data_sampling.curriculum_schedule) {
    if (phase.from_epoch != expected)
      context.fail(
          {kKey},
          fmt::format("a phase starts at epoch {}, expected {}: ranges start at 0 and touch",
                      phase.from_epoch, expected));
    if (!(phase.to_epoch > phase.from_epoch))
      context.fail({kKey},
                   fmt::format("the range [{}, {}] is empty", phase.from_epoch, phase.to_epoch));
    check_weights(context, kKey, phase.difficulty_weights);
    expected = phase.to_epoch;
  }
}

void check_curriculum(const RuleContext& context) {
  const DataSampling& sampling = context.config.data_sampling;
  check_schedule(context);
  if (!sampling.curriculum_learning) return;
  constexpr const char* kKey = "data_sampling.curriculum_learning";
  if (!sampling.n_samples)
    context.fail({kKey, "data_sampling.n_samples"}, "needs data_sampling.n_samples");
  if (sampling.difficulty_bins.empty())
    context.fail({kKey, "data_sampling.difficulty_bins"}, "needs data_sampling.difficulty_bins");
  if (sampling.curriculum_schedule.empty())
    context.fail({kKey, "data_sampling.curriculum_schedule"},
                 "needs data_sampling.curriculum_schedule");
}

void check_pairs(const RuleContext& context) {
  const DataSampling& sampling = context.config.data_sampling;
  if (sampling.use_length_balanced && !sampling.use_pairwise)
    context.fail({"data_sampling.use_length_balanced", "data_sampling.use_pairwise"},
                 "needs data_sampling.use_pairwise");
  if (sampling.use_pairwise && context.config.experiment.stage != Stage::critic)
    context.fail({"data_sampling.use_pairwise", "experiment.stage"},
                 fmt::format("pairs are for stage critic, this is {}",
                             name_of(context.config.experiment.stage)));
  const auto& bins = sampling.length_bins;
  if (std::adjacent_find(bins.begin(), bins.end(), std::greater_equal<>()) != bins.end() ||
      bins.empty())
    context.fail({"data_sampling.length_bins"}, "expected a rising list of at least one edge");
}

void check_text(const RuleContext& context) {
  if (context.config.dataset.format != DataFormat::text) return;
  const DataSampling& sampling = context.config.data_sampling;
  const auto refuse = [&](bool on, const char* key) {
    if (on) context.fail({key, "dataset.format"}, "does not go with dataset.format: text");
  };
  refuse(sampling.use_pairwise, "data_sampling.use_pairwise");
  refuse(sampling.balance_correct, "data_sampling.balance_correct");
  refuse(sampling.curriculum_learning, "data_sampling.curriculum_learning");
}

void check_batch_tokens(const RuleContext& context) {
  const Config& config = context.config;
  const auto& limit = config.dataset.max_tokens_per_batch;
  constexpr const char* kKey = "dataset.max_tokens_per_batch";
  if (!limit) return;
  if (*limit < config.dataset.max_length)
    context.fail({kKey, "dataset.max_length"}, fmt::format("{} is below dataset.max_length {}",
                                                           *limit, config.dataset.max_length));
  if (config.experiment.stage == Stage::rho1)
    context.fail({kKey, "experiment.stage"}, "does not go with stage rho1");
  if (config.experiment.stage == Stage::verifiable && config.training.td.whiten == Whiten::batch)
    context.fail({kKey, "training.td.whiten"}, "does not go with td.whiten: batch");
}

}  // namespace

void check_data_rules(const RuleContext& context) {
  const DataSampling& sampling = context.config.data_sampling;
  check_weights(context, "data_sampling.difficulty_weights", sampling.difficulty_weights);
  check_curriculum(context);
  check_pairs(context);
  check_text(context);
  check_batch_tokens(context);
  const std::int64_t per_step = context.world_size.value_or(1) * context.config.training.batch_size;
  if (sampling.n_samples && *sampling.n_samples < per_step)
    context.notices.push_back(
        fmt::format("data_sampling.n_samples {} is below ranks * batch_size = {}",
                    *sampling.n_samples, per_step));
}

}  // namespace wmtp::config
