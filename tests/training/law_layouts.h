// The layouts that the laws over ranks hold to one process.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/runs/law_run.h"

namespace wmtp::test {

struct NamedLayout {
  std::string name;
  LawLayout layout;
  std::string problem = "full";  // layouts of one problem and number of micro-batches are equal
  bool rerun = true;             // is it equal to the last bit
};

// Two groups, where the ranks allow.
inline std::vector<NamedLayout> hybrid_layouts(int world) {
  const int half = half_of(world);
  if (half == 1) return {};
  const LawLayout base{.strategy = parallel::Strategy::hybrid_shard,
                       .shard_group_size = half,
                       .num_micro_batches = world};
  std::vector<NamedLayout> layouts{{"hybrid", base},
                                   {"hybrid x 3", base},
                                   {"hybrid recompute block x 3", base},
                                   {"hybrid no_sync", base},
                                   {"hybrid prefetch 2", base}};
  for (std::size_t accumulating : {1, 2, 3})
    layouts[accumulating].layout.num_micro_batches = 3 * world;
  layouts[2].layout.recompute = model::Recompute::block;
  layouts[3].layout.no_sync = true;
  layouts[4].layout.prefetch = 2;
  return layouts;
}

inline std::vector<NamedLayout> all_layouts(int world) {
  using model::Recompute;
  using parallel::Strategy;
  std::vector<NamedLayout> layouts;
  for (Strategy strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    for (Recompute recompute : {Recompute::none, Recompute::light, Recompute::block})
      for (int accumulation : {1, 3})
        layouts.push_back(
            {fmt::format("{} recompute {} x {}", name_of(strategy), int(recompute), accumulation),
             {.strategy = strategy,
              .recompute = recompute,
              .num_micro_batches = world * accumulation}});
  layouts.push_back({"no_sync", {.num_micro_batches = 3 * world, .no_sync = true}});
  layouts.push_back({"prefetch 3", {.num_micro_batches = world, .prefetch = 3}});
  layouts.push_back({"prefetch 0", {.num_micro_batches = world, .prefetch = 0}});
  const auto hybrid = hybrid_layouts(world);
  layouts.insert(layouts.end(), hybrid.begin(), hybrid.end());
  return layouts;
}

// Frozen and trained parameters in one unit; units without a trained one, and units trained whole
// beside them. Accumulating layouts drop inputs of the adapters: masks follow the samples.
inline std::vector<NamedLayout> lora_layouts(int world) {
  model::LoraConfig adapters;
  adapters.rank = 4, adapters.alpha = 8;
  model::LoraConfig mixed = adapters;
  mixed.targets = {"q_proj", "v_proj", "down_proj"};
  mixed.scope = model::LoraScope::trunk, mixed.train_heads = true, mixed.dropout = 0.1;
  std::vector<NamedLayout> layouts;
  for (const NamedLayout& one : all_layouts(world)) {
    const bool drops = one.layout.num_micro_batches > world;
    layouts.push_back({(drops ? "lora with dropout, " : "lora, ") + one.name, one.layout,
                       drops ? "dropout" : "adapters"});
    layouts.back().layout.lora = adapters;
    if (drops) layouts.back().layout.lora->dropout = 0.25;
  }
  for (auto strategy : {parallel::Strategy::shard_grad_op, parallel::Strategy::full_shard})
    layouts.push_back({fmt::format("lora of the trunk, heads whole, {}", name_of(strategy)),
                       {.strategy = strategy, .num_micro_batches = world, .lora = mixed},
                       "mixed"});
  return layouts;
}

// Adapters upon a base in NF4: every strategy, and every level once.
inline std::vector<NamedLayout> quantized_layouts(int world) {
  std::vector<NamedLayout> layouts;
  for (const NamedLayout& one : lora_layouts(world)) {
    const bool sharded = one.layout.strategy == parallel::Strategy::full_shard;
    const bool adapters = one.problem == "adapters" && one.layout.prefetch == 1;
    if (!adapters || (!sharded && one.layout.recompute != model::Recompute::none)) continue;
    layouts.push_back({"NF4, " + one.name, one.layout, "NF4"});
    layouts.back().layout.quantize = true;
  }
  return layouts;
}

inline std::vector<NamedLayout> rounded_layouts(int world) {
  std::vector<NamedLayout> layouts;
  for (NamedLayout one : all_layouts(world)) {
    if (one.layout.recompute != model::Recompute::none) continue;
    one.layout.recipe = optim::Recipe::bf16_sr;
    layouts.push_back({"bf16_sr, " + one.name, one.layout, "bf16_sr"});
  }
  return layouts;
}

// Of them, those that add up in an order of their own.
inline std::vector<NamedLayout> rounded_orders(int world) {
  std::vector<NamedLayout> layouts;
  for (const NamedLayout& one : rounded_layouts(world))
    if (one.layout.num_micro_batches > world &&
        one.layout.strategy != parallel::Strategy::shard_grad_op)
      layouts.push_back({one.name, one.layout, one.problem, /*rerun=*/false});
  return layouts;
}

// Moments in fewer bits than fp32: with a strategy of its own for every number of ranks, and with
// two ranks adapters and fp32 masters too.
inline std::vector<NamedLayout> moment_layouts(int world) {
  using parallel::Strategy;
  const int half = half_of(world);
  const LawLayout base{.strategy = half > 1         ? Strategy::hybrid_shard
                                   : world % 2 == 0 ? Strategy::shard_grad_op
                                                    : Strategy::full_shard,
                       .shard_group_size = half,
                       .num_micro_batches = world,
                       .recipe = optim::Recipe::int8};
  std::vector<NamedLayout> layouts{{"int8", base, "int8"}};
  if (world > 2) return layouts;
  LawLayout adapters = base, wide_masters = base;
  adapters.lora = model::LoraConfig{.rank = 4, .alpha = 8};
  wide_masters.recipe = optim::Recipe::bf16_moments;
  layouts.push_back({"int8, lora", adapters, "int8 lora", /*rerun=*/false});
  layouts.push_back({"bf16_moments", wide_masters, "bf16_moments", /*rerun=*/false});
  return layouts;
}

}  // namespace wmtp::test
