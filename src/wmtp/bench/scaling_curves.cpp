#include "wmtp/bench/scaling_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "wmtp/model/presets.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/speed/device_model.h"
#include "wmtp/run/plan/speed/ring.h"
#include "wmtp/run/plan/step_model.h"

namespace wmtp::bench {
namespace {

constexpr int kGpusOfNode = 8;
constexpr std::array kWorlds = {8, 16, 32, 64, 128, 256, 512, 1024};
constexpr double kUpdateSPerParameter = 7.15e-12;  // AdamW on one H200 (benchmarks/gpu.md)
constexpr double kStartS = 20e-6;                  // of a collective of NCCL

// Of a node; `efficiency` is the part of it that a ring of large messages reaches.
struct NamedLink {
  std::string_view name;
  double node_gbit_s, efficiency, hop_us;
  double bytes_per_s() const { return node_gbit_s * 1e9 / 8 * efficiency; }
};
constexpr NamedLink kNvlink{"NVLink 4", 3600, 0.80, 2};
constexpr std::array kNetworks = {
    NamedLink{"InfiniBand NDR 400", 3200, 0.90, 5}, NamedLink{"EFA 3200", 3200, 0.75, 20},
    NamedLink{"RoCE 100", 100, 0.90, 8}, NamedLink{"25 GbE", 25, 0.90, 40}};

struct Shape {
  std::string_view name, says;
  model::ModelConfig model;
  double tokens, tflops;  // of a GPU: a micro-batch; executed
  bool recomputes;
};

model::ModelConfig llama_70b() {
  model::ModelConfig config = model::preset("llama-3.1-8b");
  config.dim = 8192;
  config.num_blocks = 80;
  config.num_heads = 64;
  config.ffn_dim = 28672;
  return config;
}

std::vector<Shape> known_shapes() {
  return {
      {"0.6B", "qwen3-0.6b, 8 x 1024 tokens a GPU", model::preset("qwen3-0.6b"), 8192, 445, false},
      {"6.7B", "llama-mtp-7b (four heads), 4 x 1024 tokens a GPU", model::preset("llama-mtp-7b"),
       4096, 492, false},
      {"70B", "Llama 3.1 70B, 4 x 1024 tokens a GPU, blocks recomputed", llama_70b(), 4096, 492,
       true}};
}

bool fits(const Shape& shape, const run::Sharding& sharding) {
  run::MemoryRequest request;
  request.model = shape.model;
  request.parallel.strategy =
      sharding.group == 1 ? parallel::Strategy::no_shard : parallel::Strategy::full_shard;
  request.parallel.param_dtype = kBFloat16;
  request.parallel.split_masters = true;  // as the recipe fp32 has them
  request.parallel.device = c10::Device(c10::DeviceType::CUDA, 0);
  request.world = sharding.group;
  request.recompute = shape.recomputes ? model::Recompute::block : model::Recompute::none;
  request.tokens = static_cast<std::int64_t>(shape.tokens);
  return static_cast<double>(run::plan_memory(request).needed_bytes()) <
         run::device_model("h200").memory_bytes;
}

run::LinkModel link_of(const NamedLink& link) {
  return {link.bytes_per_s(), link.hop_us * 1e-6, kStartS};
}

run::StepPrediction predict(const Shape& shape, const run::Sharding& sharding,
                            const NamedLink& network, int micro_batches) {
  run::StepModel model = run::step_model({.model = shape.model,
                                          .tokens = shape.tokens,
                                          .span = 1024,
                                          .flops_per_s = shape.tflops * 1e12,
                                          .update_s_per_parameter = kUpdateSPerParameter,
                                          .recomputes_blocks = shape.recomputes},
                                         sharding);
  model.micro_batches = micro_batches;
  run::set_links(
      {.node = link_of(kNvlink), .network = link_of(network), .ranks_per_node = kGpusOfNode},
      model);
  return run::predict_step(model);
}

std::string cell(const run::StepPrediction& step) {
  return fmt::format(" {:.3g} s ({:.0f} %) |", step.step_s, 100 * step.compute_s / step.step_s);
}

std::string table(const Shape& shape, std::string_view strategy, int micro_batches,
                  const std::function<run::Sharding(int)>& sharding) {
  if (!fits(shape, sharding(kWorlds.back()))) return {};
  std::string text = fmt::format("\n{}\n\n| GPUs | {} |", strategy, kNvlink.name);
  for (const NamedLink& network : kNetworks) text += fmt::format(" {} |", network.name);
  text += "\n|---|---|---|---|---|---|\n";
  for (const int world : kWorlds) {
    if (world % sharding(world).group || !fits(shape, sharding(world))) continue;
    text += fmt::format("| {} |", world);
    const auto on = [&](const NamedLink& network) {
      return cell(predict(shape, sharding(world), network, micro_batches));
    };
    text += world <= kGpusOfNode ? on(kNvlink) : " |";
    for (const NamedLink& network : kNetworks) text += world > kGpusOfNode ? on(network) : " |";
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<std::string> scaling_shapes() {
  std::vector<std::string> names;
  for (const Shape& shape : known_shapes()) names.emplace_back(shape.name);
  return names;
}

std::string scaling_curves(const CurveRequest& request) {
  std::string text = fmt::format(
      "| link | of a node of {} GPUs | reached | a hop |\n|---|---|---|---|\n", kGpusOfNode);
  std::vector<NamedLink> links{kNvlink};
  links.insert(links.end(), kNetworks.begin(), kNetworks.end());
  for (const NamedLink& link : links)
    text +=
        fmt::format("| {} | {} Gbit/s | {:.0f} % = {:.4g} GB/s | {} us |\n", link.name,
                    link.node_gbit_s, 100 * link.efficiency, link.bytes_per_s() / 1e9, link.hop_us);
  for (const Shape& shape : known_shapes()) {
    if (std::ranges::find(request.shapes, shape.name) == request.shapes.end()) continue;
    text += fmt::format("\n### {}: {}, {:.0f} TFLOP/s executed\n", shape.name, shape.says,
                        shape.tflops);
    text += table(shape, "FULL_SHARD", request.micro_batches, run::Sharding::full_shard);
    int group = kGpusOfNode;
    while (!fits(shape, run::Sharding::hybrid_shard(kWorlds.back(), group))) group *= 2;
    text += table(
        shape, fmt::format("HYBRID_SHARD, groups of {}", group), request.micro_batches,
        [group](int ranks) { return run::Sharding::hybrid_shard(ranks, std::min(group, ranks)); });
    text += table(shape, "NO_SHARD", request.micro_batches, run::Sharding::no_shard);
  }
  return text;
}

}  // namespace wmtp::bench
