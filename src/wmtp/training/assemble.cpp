#include "wmtp/training/assemble.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "wmtp/core/log.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/rope_frequencies.h"

namespace wmtp::training {

parallel::ParallelOptions parallel_of(const AssembleOptions& options) {
  parallel::ParallelOptions parallel = options.parallel;
  const DType master = optim::master_dtype(options.adamw.recipe);
  if (master != kFloat32) parallel.master_dtype = master;  // else fp32, or fp64
  // From host memory the upper plane travels as it lies; an fp32 master would be rounded by the
  // host at every use.
  if (!parallel.split_masters)
    parallel.split_masters = optim::splits_masters(options.adamw.recipe) || parallel.offloads();
  parallel.trained_alignment = optim::shard_alignment(options.adamw.recipe);
  // A graph names addresses that stay, and knows of one step.
  if (options.step.cuda_graphs) parallel.frees_grads = parallel.gathers_early = false;
  return parallel;
}

namespace {

std::unique_ptr<optim::LossScale> loss_scale_of(const AssembleOptions& options) {
  if (!options.loss_scale && options.parallel.param_dtype != kFloat16) return nullptr;
  return std::make_unique<optim::LossScale>(options.loss_scale.value_or(optim::LossScaleSettings{}),
                                            options.parallel.device);
}

StepOptions step_options_of(const AssembleOptions& options, optim::LossScale* loss_scale) {
  StepOptions step = options.step;
  step.loss_scale = loss_scale;
  return step;
}

std::vector<optim::TrainedShard> trained_shards(parallel::Runtime& runtime) {
  std::vector<optim::TrainedShard> shards;
  const int rank = runtime.placement().shard_rank();
  for (int unit = 0; const parallel::UnitState& state : runtime.states()) {
    const UnitId id(unit++);
    if (state.master.defined())
      shards.push_back({.plan = state.plan.trained,
                        .rank = rank,
                        .master = state.master.values(),
                        .grad = state.grad,
                        .master_lower = state.master.lower(),
                        .compute_copy = state.copy,
                        .unit = id,
                        .is_block = !state.plan.kept,
                        .full_precision = state.plan.full_precision});
  }
  return shards;
}

std::unique_ptr<ValuePath> value_path(const AssembleOptions& options, RuntimeAccess& access,
                                      bool learns) {
  if (!options.value_head) return nullptr;
  const UnitId unit(static_cast<int>(1 + options.model.num_blocks));
  return std::make_unique<ValuePath>(options.model, unit, access, learns ? &access : nullptr,
                                     *options.value_head);
}

std::vector<std::string> sites_of(const AssembleOptions& options, const ValuePath* value) {
  std::vector<std::string> sites;
  if (options.transformer.lora)
    sites = model::dropout_sites(options.model, *options.transformer.lora);
  if (value) std::ranges::move(value->dropout_sites(), std::back_inserter(sites));
  return sites;
}

}  // namespace

std::vector<layout::UnitSpec> trainable_units(const AssembleOptions& options) {
  auto units = options.transformer.lora
                   ? model::lora_units(options.model, *options.transformer.lora)
                   : model::model_units(options.model);
  if (options.frozen)
    for (layout::UnitSpec& unit : units)
      for (layout::ParamSpec& param : unit.params) param.trained = false;
  if (options.quantize) model::quantize_projections(units);
  if (options.transformer.float8 == kernels::Float8Recipe::tensorwise)
    model::mark_float8_matrices(units);
  if (options.value_head)
    units.push_back(model::value_head_unit(options.value_head->type, options.model.dim));
  return units;
}

TrainableModel::TrainableModel(const AssembleOptions& options, const parallel::Groups& groups)
    : runtime_(trainable_units(options), parallel_of(options), groups),
      access_(runtime_),
      transformer_(std::make_unique<model::Transformer>(options.model, access_, &access_,
                                                        options.transformer)),
      reader_(std::make_unique<model::Transformer>(options.model, access_, nullptr,
                                                   options.transformer)),
      value_(value_path(options, access_, /*learns=*/true)),
      read_value_(value_path(options, access_, /*learns=*/false)),
      optimizer_(
          std::make_unique<optim::AdamW>(trained_shards(runtime_), options.groups, options.adamw)),
      loss_scale_(loss_scale_of(options)),
      objective_(
          options.objective({{*transformer_, *reader_}, value_.get(), read_value_.get(), groups})),
      step_(std::make_unique<Step>(runtime_, *objective_, *optimizer_, *groups.reduce,
                                   step_options_of(options, loss_scale_.get()))),
      inv_freq_F_(models::rope_frequencies(options.model, options.parallel.param_dtype,
                                           options.parallel.device)),
      dropout_sites_(sites_of(options, value_.get())) {}

// Updates may still run on their stream, and the memory they work on goes back to the current one.
TrainableModel::~TrainableModel() {
  try {
    runtime_.settle();
  } catch (const std::exception& error) {  // a GPU that failed before: said where it was met
    log::debug("training", "updates were not waited for: {}", error.what());
  }
}

}  // namespace wmtp::training
