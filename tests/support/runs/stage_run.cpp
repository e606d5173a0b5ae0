#include "support/runs/stage_run.h"

#include <ATen/ops/empty.h>

#include "wmtp/core/rng.h"
#include "wmtp/data/tokens/truncation.h"
#include "wmtp/model/presets.h"

namespace wmtp::test {
namespace {

double uniform(const RngStream& stream, std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  return 2 * unit_uniform(stream.at(i / 4)[i % 4]) - 1;
}

// Every parameter random, of a size at which nothing is nearly linear; the last layer of the value
// head and lora_B too.
parallel::ReadParam lively_weights(std::uint64_t seed) {
  return [seed](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    const RngStream stream(seed, "stage/" + param.name);
    const bool is_norm = param.name.ends_with("norm.weight");
    const double spread = param.name.starts_with("value_head.") ? 0.5 : 0.3;
    const Tensor values = at::empty({out.numel()}, at::kDouble);
    for (std::int64_t i = 0; i < out.numel(); ++i)
      values.data_ptr<double>()[i] = (is_norm ? 1 : 0) + spread * uniform(stream, begin + i);
    out.copy_(values);
  };
}

bool has_response(const StageRow& row) {
  return static_cast<std::int32_t>(row.ids.size()) > row.prompt;
}

std::vector<std::int64_t> targets_of(std::span<const StageSample> samples, std::size_t heads) {
  std::vector<std::int64_t> counts(heads);
  for (const StageSample& sample : samples)
    for (const StageRow& row : sample)
      for (std::size_t k = 0; k < heads; ++k)
        counts[k] += data::num_targets(static_cast<std::uint32_t>(row.ids.size()),
                                       static_cast<std::uint32_t>(row.prompt),
                                       static_cast<std::uint32_t>(k + 1));
  return counts;
}

training::StepFacts facts_of(std::span<const StageSample> samples, std::size_t heads) {
  training::StepFacts facts;
  facts.head_targets = targets_of(samples, heads);
  for (const StageSample& sample : samples) {
    for (const StageRow& row : sample) {
      facts.num_sequences += has_response(row);
      facts.num_response_tokens += static_cast<std::int64_t>(row.ids.size()) - row.prompt;
    }
    facts.num_pairs += sample.size() == 2 && has_response(sample[0]) && has_response(sample[1]);
  }
  return facts;
}

struct HostSignals {
  std::vector<float> value, ref_nll;
};

// Row `doc` into the batch; returns where the next one begins.
std::int32_t place(const StageRow& row, std::size_t doc, std::int32_t stride,
                   data::HostBatch& batch, HostSignals& signals) {
  const auto length = static_cast<std::int32_t>(row.ids.size());
  const std::int32_t begin = batch.doc_start[doc], extent = stride > 0 ? stride : length;
  for (std::int32_t i = 0; i < extent; ++i) {
    const auto at = static_cast<std::size_t>(begin + i);
    batch.tokens[at] = i < length ? row.ids[static_cast<std::size_t>(i)] : 0;
    batch.positions[at] = i;
    batch.target_mask[at] = i >= row.prompt && i < length;
  }
  for (auto [of_row, all] :
       {std::pair{&row.value, &signals.value}, {&row.ref_nll, &signals.ref_nll}}) {
    if (of_row->empty()) continue;
    all->insert(all->end(), of_row->begin(), of_row->end());
    // What lies under padding is nobody's.
    all->resize(static_cast<std::size_t>(begin + extent), std::numeric_limits<float>::quiet_NaN());
  }
  batch.prompt_len[doc] = row.prompt;
  batch.doc_len[doc] = length;
  batch.sample_id[doc] = row.sample_id;
  batch.reward[doc] = row.reward;
  batch.has_reward[doc] = 1;
  batch.pair_role[doc] = row.role;
  return begin + extent;
}

}  // namespace

model::ModelConfig tiny_model() {
  model::ModelConfig config = model::preset("micro");
  config.dim = 32, config.ffn_dim = 48, config.vocab_size = 64;
  config.num_heads = 4, config.num_kv_heads = 2, config.head_dim = 8;
  config.num_blocks = 5, config.n_future = 3;
  model::validate(config, "the tests");
  return config;
}

std::vector<StageSample> random_samples(int count, std::uint64_t seed, bool pairs) {
  RngStream rng(seed, "stage/samples");
  auto draw_row = [&](int sample) {
    StageRow row;
    const auto length = static_cast<std::int32_t>(2 + rng.below(19));
    for (std::int32_t i = 0; i < length; ++i)
      row.ids.push_back(static_cast<std::int32_t>(rng.below(64)));
    const std::int32_t prompts[] = {
        0, length, length - 1,
        static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(length)))};
    row.prompt = prompts[sample % 7 < 3 ? sample % 7 : 3];
    row.reward = static_cast<float>(rng.below(2));
    row.sample_id = 1000 * seed + static_cast<std::uint64_t>(sample);
    return row;
  };
  std::vector<StageSample> samples;
  for (int i = 0; i < count; ++i) {
    samples.push_back({draw_row(i)});
    if (!pairs) continue;
    samples.back().push_back(draw_row(i + 3));
    samples.back()[0].role = kPositive, samples.back()[0].reward = 1;
    samples.back()[1].role = kNegative, samples.back()[1].reward = 0;
  }
  return samples;
}

void cache_signals(std::vector<StageSample>& samples, std::uint64_t seed) {
  const RngStream rng(seed, "stage/signals");
  std::int64_t drawn = 0;
  for (StageSample& sample : samples)
    for (StageRow& row : sample)
      for (std::size_t i = 0; i < row.ids.size(); ++i) {
        row.value.push_back(static_cast<float>(uniform(rng, drawn++)));
        row.ref_nll.push_back(static_cast<float>(4 + uniform(rng, drawn++)));
      }
}

StageRun::StageRun(const StageSetup& setup, const parallel::Groups& groups)
    : setup_(setup), groups_(groups), ema_(setup.ema, setup.device) {
  if (setup.frozen_seed) {
    training::FrozenModelOptions options;
    options.shard = setup.shard_frozen;
    options.device = setup.device;
    if (setup.strategy == parallel::Strategy::hybrid_shard)
      options.shard_group_size = setup.shard_group_size;
    if (setup.stage == StageKind::verifiable)
      options.use = training::FrozenModelOptions::Use::values;
    frozen_ = std::make_unique<training::FrozenModel>(frozen_source(), options, groups);
  }
  model_ = std::make_unique<training::TrainableModel>(assemble_options(), groups);
  model_->runtime().fill(lively_weights(setup.seed));
}

models::ModelSource StageRun::frozen_source() const {
  models::ModelSource source;
  source.config = tiny_model();
  source.fill = lively_weights(setup_.frozen_seed.value());
  source.value_head = setup_.value_head.type;
  return source;
}

training::AssembleOptions StageRun::assemble_options() {
  training::AssembleOptions options;
  options.model = tiny_model();
  if (setup_.stage == StageKind::critic) {
    options.model = model::backbone(options.model);
    options.frozen = !setup_.critic.backbone_learns;
  }
  if (setup_.stage == StageKind::critic || setup_.joint) {
    options.value_head = setup_.value_head;
    options.value_head->freeze_last_bias =
        setup_.critic.loss.type == losses::ValueLossType::pairwise_ranking;
  }
  options.objective = [this](const training::ModelParts& parts) { return objective(parts); };
  options.transformer.lora = setup_.lora;
  options.transformer.recompute = setup_.recompute;
  options.transformer.float8 = setup_.float8;
  options.parallel.strategy = setup_.strategy;
  options.parallel.device = setup_.device;
  options.step.cuda_graphs = setup_.cuda_graphs;
  if (setup_.bf16) {
    options.parallel.param_dtype = kBFloat16;
    options.transformer.attention.deterministic = true;
  }
  options.parallel.shard_group_size = setup_.shard_group_size;
  options.groups.groups = {{.name = "policy", .learning_rate = 1e-3, .weight_decay = 0.01},
                           {.name = "value_head", .learning_rate = 2e-3, .weight_decay = 0}};
  options.groups.group_of = [](const layout::ParamSpec& param) -> std::size_t {
    return param.name.starts_with("value_head.") ? 1 : 0;
  };
  return options;
}

std::unique_ptr<training::Objective> StageRun::objective(const training::ModelParts& parts) {
  switch (setup_.stage) {
    case StageKind::baseline:
      return std::make_unique<training::Baseline>(parts.policy);
    case StageKind::critic:
      return std::make_unique<training::Critic>(parts.policy, *parts.value, *parts.read_value,
                                                setup_.critic);
    case StageKind::verifiable:
      return std::make_unique<training::Verifiable>(
          parts.policy, training::ValueSources{parts.value, parts.read_value, frozen_.get()},
          setup_.verifiable, ema_, *parts.groups.reduce);
    case StageKind::rho1:
      return std::make_unique<training::Rho1>(parts.policy, frozen_.get(), setup_.rho1,
                                              *parts.groups.reduce);
  }
  return nullptr;
}

training::DeviceBatch StageRun::upload(std::span<const StageSample> samples, bool learns) {
  const auto heads = static_cast<std::size_t>(tiny_model().n_future);
  data::BatchSizes sizes{0, 0, heads};
  for (const StageSample& sample : samples)
    for (const StageRow& row : sample) {
      ++sizes.num_docs;
      sizes.num_tokens +=
          setup_.row_stride > 0 ? static_cast<std::size_t>(setup_.row_stride) : row.ids.size();
    }
  data::HostBatch host = data::make_host_batch(sizes, data::heap_allocator());
  host.row_stride = sizes.num_docs > 0 ? setup_.row_stride : 0;
  HostSignals signals;
  std::size_t doc = 0;
  for (const StageSample& sample : samples)
    for (const StageRow& row : sample) {
      host.doc_start[doc + 1] = place(row, doc, setup_.row_stride, host, signals);
      ++doc;
    }
  const auto counts = targets_of(samples, heads);
  std::copy(counts.begin(), counts.end(), host.head_targets.begin());
  std::copy(counts.begin(), counts.end(), host.step_head_targets.begin());
  host.value = signals.value, host.ref_nll = signals.ref_nll;
  host.epoch = learns ? setup_.epoch : 0;
  data::check_host_batch(host);
  training::UploadOptions options;
  options.num_heads = static_cast<int>(heads);
  options.inv_freq_F = model_->inv_freq();
  if (learns) options.shape = setup_.shape;
  if (learns) options.dropout = models::DropoutKey{11, steps_done_, model_->dropout_sites()};
  return training::upload_batch(host, options);
}

training::StepInput StageRun::deal(std::span<const StageSample> samples) {
  const auto world = static_cast<std::size_t>(groups_.reduce->world()),
             rank = static_cast<std::size_t>(groups_.reduce->rank()),
             width = static_cast<std::size_t>(setup_.batch_size),
             heads = static_cast<std::size_t>(tiny_model().n_future);
  training::StepInput input;
  input.facts = facts_of(samples, heads);
  input.facts.step = steps_done_;
  const std::size_t num_groups = (samples.size() + width * world - 1) / (width * world) * world;
  for (std::size_t group = 0; group < num_groups; ++group) {
    const std::size_t begin = std::min(group * width, samples.size());
    const auto part = samples.subspan(begin, std::min(width, samples.size() - begin));
    const auto counts = targets_of(part, heads);
    input.facts.scope_targets.insert(input.facts.scope_targets.end(), counts.begin(), counts.end());
    if (group % world == rank) input.micro_batches.push_back(upload(part, /*learns=*/true));
  }
  return input;
}

training::StepResult StageRun::step(std::span<const StageSample> samples) {
  const training::StepInput input = deal(samples);
  ++steps_done_;
  return model_->step().run(input).read();
}

training::Numbers StageRun::validate(std::span<const StageSample> samples) {
  const auto world = static_cast<std::size_t>(groups_.reduce->world()),
             rank = static_cast<std::size_t>(groups_.reduce->rank()),
             width = static_cast<std::size_t>(setup_.batch_size),
             share = (samples.size() + world - 1) / world;
  const std::size_t first = std::min(rank * share, samples.size());
  const auto mine = samples.subspan(first, std::min(share, samples.size() - first));
  training::Objective& objective = model_->objective();
  training::Totals totals = model_->step().make_totals();
  objective.begin_evaluation(facts_of(samples, static_cast<std::size_t>(tiny_model().n_future)));
  for (std::size_t begin = 0; begin < share; begin += width) {
    const std::size_t from = std::min(begin, mine.size());
    model_->runtime().begin_evaluation();
    objective.evaluate(
        upload(mine.subspan(from, std::min(width, mine.size() - from)), /*learns=*/false), totals);
  }
  return objective.finish_evaluation(totals, *groups_.reduce);
}

StageRun::Part StageRun::part(std::size_t unit, const Tensor& shard) {
  if (!shard.defined()) return {at::empty({0}, at::kFloat), 0};
  const int rank = model_->runtime().placement().shard_rank();
  const auto owned = states()[unit].plan.trained.owned(rank);
  return {shard.narrow(0, 0, owned.size()), owned.begin};
}

}  // namespace wmtp::test
