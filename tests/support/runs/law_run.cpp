#include "support/runs/law_run.h"

#include <ATen/ops/empty.h>

#include "wmtp/models/model_source.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::test {
namespace {

training::AssembleOptions assemble_options(const model::ModelConfig& config,
                                           const LawLayout& layout) {
  training::AssembleOptions options;
  options.model = config;
  options.objective = training::make_baseline;
  options.transformer.recompute = layout.recompute;
  options.transformer.lora = layout.lora;
  options.quantize = layout.quantize;
  options.transformer.float8 = layout.float8;
  options.adamw.recipe = layout.recipe;
  options.adamw.rounding_seed = 5 + layout.seed;
  options.loss_scale = layout.loss_scale;
  options.parallel.strategy = layout.strategy;
  options.parallel.shard_group_size = layout.shard_group_size;
  options.parallel.no_sync = layout.no_sync;
  options.parallel.prefetch_forward = options.parallel.prefetch_backward = layout.prefetch;
  options.groups.groups = {
      {.name = "policy", .learning_rate = kLawLearningRate, .weight_decay = 0.01}};
  return options;
}

models::SyntheticBatch micro_batch(const model::ModelConfig& config, std::uint64_t seed, int step,
                                   int index, bool empty) {
  const models::SyntheticShape shape{
      .batch = 1 + index % 2, .seq = 24, .vocab_size = config.vocab_size, .mixed = true};
  auto batch =
      models::synthetic_batch(shape, 7 + seed, static_cast<std::uint64_t>(100 * step + index));
  if (empty) std::fill(batch.target_mask.begin(), batch.target_mask.end(), std::uint8_t{0});
  return batch;
}

// Weights from scratch, but lora_B like a projection: from zero, A would have no gradient in the
// first step.
parallel::ReadParam weights_of(const model::ModelConfig& config, std::uint64_t seed) {
  return [fill = models::random_weights(config, 3 + seed)](const layout::ParamSpec& param,
                                                           std::int64_t begin, const Tensor& out) {
    const bool is_b = param.name.ends_with("lora_B.weight");
    fill(is_b ? layout::ParamSpec{param.name + ".drawn", param.shape} : param, begin, out);
  };
}

}  // namespace

parallel::Groups groups_of_test(comm::ProcessGroupSession& session) {
  return {&session.gather_group(), &session.reduce_group(),
          session.shard_groups(half_of(session.world()))};
}

LawRun::LawRun(const model::ModelConfig& config, const LawLayout& layout,
               const parallel::Groups& groups)
    : config_(config),
      layout_(layout),
      groups_(groups),
      model_(assemble_options(config, layout), groups) {
  model_.runtime().fill(weights_of(config, layout.seed));
}

training::StepResult LawRun::step() {
  const int world = groups_.gather->world(), rank = groups_.gather->rank();
  const int heads = static_cast<int>(config_.n_future);
  training::StepInput input;
  input.facts.head_targets.assign(static_cast<std::size_t>(heads), 0);
  for (int index = 0; index < layout_.num_micro_batches; ++index) {
    const bool last = index + 1 == layout_.num_micro_batches;
    const bool empty = index > 0 && (last || layout_.only_first);
    const auto batch = micro_batch(config_, layout_.seed, steps_done_, index, empty);
    const auto counts = models::count_targets(batch.view(), heads);
    for (std::size_t head = 0; head < counts.size(); ++head)
      input.facts.head_targets[head] += counts[head];
    if (index % world != rank) continue;
    input.num_tokens += static_cast<double>(batch.tokens.size());
    input.micro_batches.push_back(
        models::upload_tokens(batch.view(), heads, model_.inv_freq(),
                              models::DropoutKey{11, steps_done_, model_.dropout_sites()}));
  }
  ++steps_done_;
  return model_.step().run(input).read();
}

void LawRun::resume(LawRun& other) {
  for (std::size_t u = 0; u < num_units(); ++u)
    if (const parallel::Master& master = model_.runtime().states()[u].master; master.defined())
      master.write(other.model_.runtime().states()[u].master.joined());
  optim::AdamW &mine = model_.optimizer(), &theirs = other.model_.optimizer();
  for (std::size_t i = 0; i < theirs.moments().size(); ++i) {
    const std::vector<Tensor> to = mine.moments()[i].tensors(),
                              from = theirs.moments()[i].tensors();
    for (std::size_t part = 0; part < from.size(); ++part) to[part].copy_(from[part]);
  }
  mine.applied_steps().copy_(theirs.applied_steps());
  steps_done_ = other.steps_done_;
}

LawRun::Part LawRun::part(std::size_t unit, const Tensor& shard) {
  if (!shard.defined()) return {at::empty({0}, at::kFloat), 0};
  const auto& runtime = model_.runtime();
  const auto owned = runtime.states()[unit].plan.trained.owned(runtime.placement().shard_rank());
  return {shard.narrow(0, 0, owned.size()), owned.begin};
}

LawRun::Part LawRun::master(std::size_t unit) {
  return part(unit, model_.runtime().states()[unit].master.joined());
}
LawRun::Part LawRun::grad(std::size_t unit) {
  return part(unit, model_.runtime().states()[unit].grad);
}
Tensor LawRun::frozen(std::size_t unit) {
  return model_.runtime().states()[unit].frozen;
}

std::vector<Tensor> masters(LawRun& run) {
  std::vector<Tensor> all;
  for (std::size_t u = 0; u < run.num_units(); ++u) all.push_back(run.master(u).values.clone());
  return all;
}

bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t u = 0; u < a.size(); ++u)
    if (!a[u].equal(b[u])) return false;
  return a.size() == b.size();
}

}  // namespace wmtp::test
