#include "wmtp/run/plan/sizing/choices.h"

#include <fmt/format.h>

#include "wmtp/config/derived.h"

namespace wmtp::run {
namespace {

class SideBySide {
 public:
  SideBySide(RunSizer& sizer, const SizedRun& run) : sizer_(sizer), run_(run) {}

  std::vector<Choice> choices() {
    add_levels();
    add_strategies();
    add_precisions();
    add_float8();
    add_ways();
    return std::move(choices_);
  }

 private:
  void add(const char* group, std::string name, bool current, std::vector<std::string> overrides) {
    Choice choice{group, std::move(name), current, {}, {}};
    try {
      choice.run = sizer_.size(run_.candidate.with(std::move(overrides)));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::config) throw;
      return;
    }
    choice.largest_batch = sizer_.largest_batch(choice.run);
    if (choice.run.fits()) sizer_.add_speed(choice.run);
    choices_.push_back(std::move(choice));
  }

  void add_levels() {
    for (const auto level :
         {config::Recompute::none, config::Recompute::light, config::Recompute::block})
      add("recompute", std::string(config::name_of(level)), level == run_.recompute(),
          {fmt::format("distributed.fsdp.activation_checkpointing={}", config::name_of(level))});
  }

  void add_strategies() {
    const auto now = config::name_of(run_.config().distributed.fsdp.sharding_strategy);
    for (const std::string& name : strategies_for(sizer_, run_.world()))
      add("strategy", name, name == now,
          {fmt::format("distributed.fsdp.sharding_strategy={}", name)});
  }

  // The CPU computes in fp32 whatever is set.
  void add_precisions() {
    const bool gpu = sizer_.place().device.is_cuda();
    const auto precision = run_.config().training.optimizer.precision;
    const auto now = config::compute_dtypes(run_.config().distributed.fsdp).param;
    const std::string states = fmt::format(", {} states", config::name_of(precision));
    if (gpu)
      for (const auto dtype : {config::DType::bf16, config::DType::fp16, config::DType::fp32})
        add("precision", std::string(config::name_of(dtype)) + states, dtype == now,
            {fmt::format("distributed.fsdp.param_dtype={}", config::name_of(dtype))});
    const std::string computed = gpu ? std::string(config::name_of(now)) : "fp32";
    if (!gpu) add("precision", computed + states, true, {});
    for (const optim::Recipe recipe : optim::kRecipes)
      if (recipe != optim::recipe_from_name(config::name_of(precision)))
        add("precision", fmt::format("{}, {} states", computed, optim::name_of(recipe)), false,
            {fmt::format("training.optimizer.precision={}", optim::name_of(recipe))});
  }

  // A GPU without such products refuses them, and is left with nothing to compare.
  void add_float8() {
    if (!sizer_.place().device.is_cuda()) return;
    const std::size_t before = choices_.size();
    const auto now = run_.config().training.float8;
    for (const auto recipe :
         {config::Float8::off, config::Float8::tensorwise, config::Float8::rowwise})
      add("float8", std::string(config::name_of(recipe)), recipe == now,
          {fmt::format("training.float8={}", config::name_of(recipe))});
    if (choices_.size() == before + 1) choices_.pop_back();
  }

  void add_ways() {
    const config::Training& training = run_.config().training;
    const bool quantized = config::base_quantize(run_.config()) != config::Quantize::none;
    const std::string name = fmt::format("LoRA, rank {}", training.lora.rank);
    std::vector<std::string> full{"training.use_lora=false"}, lora{"training.use_lora=true"};
    std::vector<std::string> upon_nf4 = lora;
    if (quantized)
      for (std::vector<std::string>* overrides : {&full, &lora})
        overrides->push_back(quantize_override(run_, config::Quantize::none));
    upon_nf4.push_back(quantize_override(run_, config::Quantize::nf4));
    add("training", "full", !training.use_lora, std::move(full));
    add("training", name, training.use_lora && !quantized, std::move(lora));
    add("training", name + ", on NF4", quantized, std::move(upon_nf4));  // left out where refused
  }

  RunSizer& sizer_;
  const SizedRun& run_;
  std::vector<Choice> choices_;
};

}  // namespace

std::vector<std::string> strategies_for(const RunSizer& sizer, int world) {
  std::vector<std::string> names{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"};
  const int node = sizer.ranks_of_node(world);
  if (node > 1 && node < world && world % node == 0) names.emplace_back("HYBRID_SHARD");
  return names;
}

std::vector<Choice> compare_choices(RunSizer& sizer, const SizedRun& run) {
  return SideBySide(sizer, run).choices();
}

}  // namespace wmtp::run
