#include "wmtp/training/assemble.h"

#include <ATen/ops/empty.h>

#include "wmtp/model/init_weights.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::training {

// The model's view of the runtime.
class TrainableModel::Binding : public model::WeightAccess, public model::GradSink {
 public:
  explicit Binding(parallel::Runtime& runtime) : runtime_(runtime) {}

  model::UnitBuffers acquire(UnitId unit, model::Pass pass) override {
    const parallel::UnitWeights weights = runtime_.acquire(unit, pass == model::Pass::backward);
    return {weights.trained, weights.frozen};
  }
  void release(UnitId unit, model::Pass) override { runtime_.release(unit); }
  Tensor open(UnitId unit) override { return runtime_.open_grad(unit); }
  void close(UnitId unit) override { runtime_.close_grad(unit); }

 private:
  parallel::Runtime& runtime_;
};

namespace {

std::vector<layout::UnitSpec> units_of(const AssembleOptions& options) {
  return options.transformer.lora ? model::lora_units(options.model, *options.transformer.lora)
                                  : model::model_units(options.model);
}

parallel::ParallelOptions parallel_of(const AssembleOptions& options) {
  parallel::ParallelOptions parallel = options.parallel;
  if (options.adamw.recipe == optim::Recipe::bf16_sr)
    parallel.master_dtype = optim::master_dtype(options.adamw.recipe);
  return parallel;
}

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
  const int rank = runtime.placement().shard_rank(runtime.options().strategy);
  for (const parallel::UnitState& state : runtime.states())
    if (state.master.defined())
      shards.push_back({state.plan.trained, rank, state.master, state.grad, state.copy});
  return shards;
}

Tensor device_inv_freq(const model::ModelConfig& config, const parallel::ParallelOptions& options) {
  const std::vector<float> values = model::inv_freq(config);
  const auto dtype = options.param_dtype == kFloat64 ? at::kDouble : at::kFloat;
  const Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), host.data_ptr<float>());
  return host.to(dtype).to(options.device);
}

}  // namespace

TrainableModel::TrainableModel(const AssembleOptions& options, const parallel::Groups& groups)
    : runtime_(units_of(options), parallel_of(options), groups),
      binding_(std::make_unique<Binding>(runtime_)),
      transformer_(std::make_unique<model::Transformer>(options.model, *binding_, binding_.get(),
                                                        options.transformer)),
      optimizer_(
          std::make_unique<optim::AdamW>(trained_shards(runtime_), options.groups, options.adamw)),
      loss_scale_(loss_scale_of(options)),
      step_(std::make_unique<Step>(runtime_, *transformer_, *optimizer_, *groups.reduce,
                                   step_options_of(options, loss_scale_.get()))),
      inv_freq_F_(device_inv_freq(options.model, options.parallel)) {}

TrainableModel::~TrainableModel() = default;

parallel::Fill random_weights(const model::ModelConfig& config, std::uint64_t seed) {
  return [std = config.initializer_range, seed](const layout::ParamSpec& param, std::int64_t begin,
                                                const Tensor& out) {
    model::draw_weights(param, seed, std, begin, out);
  };
}

}  // namespace wmtp::training
