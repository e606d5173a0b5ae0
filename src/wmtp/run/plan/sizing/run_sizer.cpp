#include "wmtp/run/plan/sizing/run_sizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "wmtp/config/derived.h"
#include "wmtp/run/plan/from_config.h"

namespace wmtp::run {
namespace {

constexpr std::int64_t kUnlimitedBytes = std::numeric_limits<std::int64_t>::max() / 2;

// Keys that change nothing about which models are opened, and how.
constexpr std::array<std::string_view, 9> kModelsStay = {"distributed.",
                                                         "training.batch_size=",
                                                         "training.gradient_accumulation_steps=",
                                                         "training.global_batch_size=",
                                                         "training.use_lora=",
                                                         "training.lora.",
                                                         "training.optimizer.",
                                                         "training.float8=",
                                                         "dataset.max_length="};

std::vector<std::string> model_overrides(const Candidate& candidate) {
  std::vector<std::string> found;
  for (const std::string& one : candidate.overrides)
    if (std::ranges::none_of(kModelsStay, [&](auto key) { return one.starts_with(key); }))
      found.push_back(one);
  return found;
}

// What fit_memory tries last: its table is that of a run which does not fit.
config::Config with_least_memory(config::Config config) {
  auto& level = config.distributed.fsdp.activation_checkpointing;
  if (level == config::Recompute::automatic) level = config::Recompute::block;
  for (config::Placement* placement :
       {&config.models.reference.placement, &config.models.value_model.placement})
    if (*placement == config::Placement::automatic) *placement = config::Placement::shard;
  return config;
}

// A plan within `context`, else one that says how much would be needed.
ModelPlan plan_anyway(const config::Config& config, const RunContext& context,
                      const OpenedModels& models) {
  try {
    return plan_model(config, context, models);
  } catch (const Error& error) {
    if (!is_too_large(error)) throw;
  }
  const config::Config least = with_least_memory(config);
  OpenedModels sharded = models;
  if (sharded.frozen && sharded.frozen->placement == config::Placement::automatic) {
    sharded.frozen->placement = config::Placement::shard;
    sharded.frozen->options.shard = context.world > 1;
  }
  RunContext larger = context;
  larger.memory_bytes = kUnlimitedBytes;
  return plan_model(least, larger, sharded);
}

// A kernel may refuse what is larger (cuDNN's attention where it is to be reproducible).
bool fits_batch(config::Config config, std::int64_t samples_per_rank, std::int64_t batch_size,
                const RunContext& context, const OpenedModels& models) {
  config.training.batch_size = batch_size;
  config.training.global_batch_size.reset();
  config.training.gradient_accumulation_steps =
      std::max<std::int64_t>(1, samples_per_rank / batch_size);
  try {
    plan_model(config, context, models);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    return false;
  }
}

}  // namespace

Candidate Candidate::with(std::vector<std::string> more) const {
  Candidate changed = *this;
  for (std::string& one : more) changed.overrides.push_back(std::move(one));
  return changed;
}

std::int64_t SizedRun::host_bytes() const {
  std::int64_t sum = 0;
  for (const MemoryPlan::Row& row : plan.memory.rows)
    if (row.on_host) sum += row.bytes;
  return sum;
}

std::int64_t SizedRun::tokens_per_step() const {
  return plan.memory_request.tokens * accumulation * world();
}

static_assert(static_cast<int>(config::Recompute::block) ==
              static_cast<int>(model::Recompute::block));
config::Recompute SizedRun::recompute() const {
  return static_cast<config::Recompute>(plan.memory_request.recompute);
}

std::string quantize_override(const SizedRun& run, config::Quantize quantize) {
  const config::Config& config = run.config();
  const bool own_backbone = is_critic(config) && config.models.value_model.path;
  return fmt::format("models.{}.quantize={}", own_backbone ? "value_model" : "policy",
                     config::name_of(quantize));
}

std::vector<std::string> batch_overrides(const SizedRun& run, std::int64_t batch_size) {
  std::vector<std::string> overrides{fmt::format("training.batch_size={}", batch_size)};
  if (!run.config().training.global_batch_size)
    overrides.push_back(fmt::format("training.gradient_accumulation_steps={}",
                                    run.samples_per_rank() / batch_size));
  return overrides;
}

RunSizer::RunSizer(config::LoadRequest request, SizingPlace place)
    : request_(std::move(request)), place_(std::move(place)) {
  request_.check_paths = false;
}

int RunSizer::ranks_of_node(int world) const {
  return place_.ranks_per_node > 0 ? std::min(world, place_.ranks_per_node) : world;
}

RunContext RunSizer::context_of(const config::Config& config, int world) const {
  const int local_world = ranks_of_node(world);
  RunContext context;
  context.device = place_.device;
  context.rank = 1;  // has nothing to say
  context.world = world;
  context.memory_bytes = place_.memory_bytes(config, local_world);
  context.environment = place_.environment;
  context.local_rank = 1 % local_world;
  context.local_world = local_world;
  context.named_gpu = place_.named_gpu;
  return context;
}

const OpenedModels& RunSizer::models_for(const Candidate& candidate, const config::Config& config,
                                         const RunContext& context) {
  const std::vector<std::string> changes = model_overrides(candidate);
  if (changes.empty()) {
    if (!usual_models_) usual_models_ = open_models(config, context);
    return *usual_models_;
  }
  if (!changed_models_ || changed_by_ != changes) {
    changed_models_ = open_models(config, context);
    changed_by_ = changes;
  }
  return *changed_models_;
}

SizedRun RunSizer::size(const Candidate& candidate) {
  config::LoadRequest request = request_;
  request.overrides.insert(request.overrides.end(), candidate.overrides.begin(),
                           candidate.overrides.end());
  request.world_size = candidate.world;
  SizedRun run;
  run.candidate = candidate;
  run.resolved = config::load_config(request);
  plan(run);
  return run;
}

SizedRun RunSizer::resized(const SizedRun& run, std::int64_t batch_size,
                           std::int64_t accumulation) {
  SizedRun other;
  other.resolved = run.resolved;
  config::Training& training = other.resolved.config.training;
  training.batch_size = batch_size;
  std::vector<std::string> overrides{fmt::format("training.batch_size={}", batch_size)};
  if (!training.global_batch_size) {
    training.gradient_accumulation_steps = accumulation;
    overrides.push_back(fmt::format("training.gradient_accumulation_steps={}", accumulation));
  }
  other.candidate = run.candidate.with(std::move(overrides));
  plan(other);
  return other;
}

void RunSizer::plan(SizedRun& run) {
  run.accumulation = config::accumulation_steps(run.config(), run.world());
  const RunContext context = context_of(run.config(), run.world());
  run.ranks_of_node = context.local_world;
  run.limit_bytes = context.memory_bytes;
  run.plan = plan_anyway(run.config(), context, models_for(run.candidate, run.config(), context));
}

void RunSizer::add_speed(SizedRun& run) {
  SpeedRequest request;
  request.shape = run.plan.memory_request;
  request.micro_batches = static_cast<int>(run.accumulation);
  request.span = static_cast<double>(run.config().dataset.max_length);
  request.ranks_per_node = run.ranks_of_node;
  run.speed = expected_speed(request, place_.rates(run.ranks_of_node));
}

std::optional<std::int64_t> RunSizer::largest_batch(const SizedRun& run, std::int64_t most) {
  const RunContext context = context_of(run.config(), run.world());
  const OpenedModels& models = models_for(run.candidate, run.config(), context);
  const auto fits = [&](std::int64_t batch_size) {
    return fits_batch(run.config(), run.samples_per_rank(), batch_size, context, models);
  };
  std::int64_t good = 1, bad = most + 1;
  // Fewer rows accumulate, and gradients that stand may need more than all rows at once do.
  if (!fits(1)) {
    if (!run.fits() || run.batch_size() > most) return std::nullopt;
    good = run.batch_size();
  }
  for (std::int64_t next = 2 * good; next < bad; next *= 2) (fits(next) ? good : bad) = next;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace wmtp::run
