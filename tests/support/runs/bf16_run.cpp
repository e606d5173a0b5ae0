#include "support/runs/bf16_run.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

#include "wmtp/core/error.h"
#include "wmtp/model/presets.h"

namespace wmtp::test {

class DrawnWeights : public training::Objective {
 public:
  explicit DrawnWeights(const comm::Communicator& ranks) : ranks_(ranks) {}
  void draw(parallel::Runtime& runtime) { runtime_ = &runtime; }

  void add_slots(training::TotalsLayout& layout) const override { layout.add("drawn"); }
  bool has_targets(const training::StepFacts&) const override { return true; }
  void begin_step(const training::StepFacts& facts,
                  std::span<const training::DeviceBatch>) override {
    step_ = facts.step;
  }

  void run(std::size_t index, const training::DeviceBatch&, training::Totals& totals) override {
    const auto num_units = static_cast<int>(runtime_->states().size());
    const auto batch = static_cast<std::int64_t>(index) * ranks_.world() + ranks_.rank();
    for (int unit = 0; unit < num_units; ++unit) {
      const Tensor away = distance(unit, batch, /*backward=*/false);
      if (away.defined()) totals["drawn"].add_(away.to(at::kDouble).square().sum(), 0.5);
      runtime_->release(UnitId(unit));
    }
    for (int unit = num_units - 1; unit >= 0; --unit) {
      if (const Tensor away = distance(unit, batch, /*backward=*/true); away.defined()) {
        const parallel::OpenGrad grad = runtime_->open_grad(UnitId(unit));
        grad.fresh ? grad.flat.copy_(away) : grad.flat.add_(away);
        runtime_->close_grad(UnitId(unit));
      }
      runtime_->release(UnitId(unit));
    }
  }

  training::Numbers read(const training::StepFacts&,
                         const training::HostTotals& totals) const override {
    return {.loss = totals.value("drawn"), .metrics = {}};
  }
  void begin_evaluation(const training::StepFacts&) override { unused(); }
  void evaluate(const training::DeviceBatch&, training::Totals&) override { unused(); }
  training::Numbers finish_evaluation(training::Totals&, comm::Communicator&) override { unused(); }
  training::TokenMarks view(const training::DeviceBatch&) override { unused(); }

 private:
  [[noreturn]] static void unused() { WMTP_CHECK(false, "these runs only train"); }

  // Of the weights in use from the batch's targets; undefined where the unit learns nothing.
  Tensor distance(int unit, std::int64_t batch, bool backward) {
    const Tensor weights = runtime_->acquire(UnitId(unit), backward).trained;
    if (!weights.defined()) return {};
    const double pace = 0.37 + 0.01 * unit + 0.001 * static_cast<double>(10 * step_ + batch);
    return weights.to(at::kFloat).sub(at::arange(weights.numel(), at::kFloat).mul_(pace).sin_());
  }

  const comm::Communicator& ranks_;
  parallel::Runtime* runtime_ = nullptr;
  std::int64_t step_ = 0;
};

namespace {

training::AssembleOptions bf16_options(const model::ModelConfig& config, const Bf16Layout& layout,
                                       DrawnWeights*& objective) {
  training::AssembleOptions options;
  options.model = config;
  options.value_head = training::ValuePathOptions{.type = model::ValueHeadType::linear};
  if (layout.lora) options.transformer.lora = model::checked({.rank = 3}, config);
  options.objective = [&objective](const training::ModelParts& parts) {
    auto made = std::make_unique<DrawnWeights>(*parts.groups.reduce);
    objective = made.get();
    return made;
  };
  options.parallel.strategy = layout.strategy;
  options.parallel.shard_group_size = layout.shard_group_size;
  options.parallel.param_dtype = kBFloat16;
  options.groups.groups = {{.name = "policy", .learning_rate = 1e-3, .weight_decay = 0.01}};
  options.adamw.recipe = layout.recipe;
  options.parallel.split_masters = layout.split_masters;
  options.adamw.rounding_seed = 5;
  return options;
}

// 1 + odd / 256 lies halfway between two numbers of bf16.
void fill_with_ties(const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
  const Tensor places = at::arange(begin, begin + out.numel(), at::kFloat);
  const Tensor ties = places.remainder(64).mul(2).add(1).div(256).add(1);
  const auto pace = 0.7 + 0.01 * static_cast<double>(param.name.size());
  out.copy_(at::where(places.remainder(3).eq(0), ties, places.mul(pace).sin()));
}

}  // namespace

model::ModelConfig bf16_config() {
  model::ModelConfig config = model::preset("micro");
  config.dim = 36;
  config.num_heads = 3, config.num_kv_heads = 1, config.head_dim = 12;
  config.ffn_dim = 44;
  config.vocab_size = 101;
  return config;
}

Bf16Run::Bf16Run(const model::ModelConfig& config, const Bf16Layout& layout,
                 const parallel::Groups& groups)
    : layout_(layout), model_(bf16_options(config, layout, objective_), groups) {
  objective_->draw(model_.runtime());
  model_.runtime().fill(fill_with_ties);
}

training::StepResult Bf16Run::step() {
  training::StepInput input;
  input.micro_batches.resize(static_cast<std::size_t>(layout_.num_micro_batches));
  input.facts.step = steps_done_++;
  return model_.step().run(input).read();
}

std::vector<Tensor> Bf16Run::masters() {
  std::vector<Tensor> all;
  for (const parallel::UnitState& state : model_.runtime().states())
    if (state.master.defined()) all.push_back(state.master.joined().clone());
  return all;
}

std::vector<Tensor> Bf16Run::moments() {
  std::vector<Tensor> all;
  for (const optim::ShardMoments& shard : model_.optimizer().moments())
    for (const Tensor& one : shard.tensors()) all.push_back(one.clone());
  return all;
}

}  // namespace wmtp::test
