// wmtp_model_probe: one forward and backward of a model, written out for an independent
// implementation to compare with.
//   wmtp_model_probe --preset P [--blocks L --heads n] --device cpu|cuda --dtype fp32|bf16|fp64
//   --batch B
//   --seq T --out DIR wmtp_model_probe --model FOLDER --ids FILE.json ...   weights and rows
//   [[ids], ..] of files instead of random ones; --adapter A puts the adapter of a PEFT folder upon
//   them, whose gradients alone are then written
// DIR/weights.safetensors (what was computed with), DIR/grads.safetensors (fp32),
// DIR/logits.safetensors with --logits, DIR/probe.json {loss, head_losses, tokens [B][T]}. Every
// token is a target; rows are documents. Logits are those of positions with a target, rows end to
// end.
#include <ATen/ops/full.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/simd_limit.h"
#include "tools/write_tensors.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/model_source.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace {

using namespace wmtp;

struct Flags {
  std::string preset = "micro", device = "cpu", dtype = "fp32", recompute = "none",
              attention = "auto";
  std::filesystem::path out = "probe", ids;
  std::string model, adapter;
  std::int64_t blocks = 0, heads = 0;
  int batch = 2, seq = 16;
  bool logits = false;
};

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

// A folder's model, or a preset with other numbers of blocks and heads and weights drawn from
// seed 3.
models::ModelSource source_of(const Flags& flags) {
  if (!flags.model.empty()) {
    models::ModelSource source = models::open_model_source(flags.model, environment);
    if (!flags.adapter.empty()) models::apply_adapter(source, flags.adapter);
    return source;
  }
  models::ModelSource source = models::open_model_source(flags.preset, environment, 3);
  model::ModelConfig& config = source.config;
  if (flags.blocks > 0) config.num_blocks = flags.blocks;
  if (flags.heads > 0) config.n_future = flags.heads;
  model::validate(config, "the command line");
  return source;
}

models::SyntheticBatch tokens_of(const Flags& flags, std::int64_t vocab_size) {
  if (flags.ids.empty())
    return models::synthetic_batch({flags.batch, flags.seq, vocab_size, false}, 1, 0);
  models::SyntheticBatch batch;
  batch.doc_start.push_back(0);
  for (const auto& row : read_json(flags.ids)) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      batch.tokens.push_back(row[i].get<std::int32_t>());
      batch.positions.push_back(static_cast<std::int32_t>(i));
      batch.target_mask.push_back(1);
    }
    batch.doc_start.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  }
  return batch;
}

// Gradients are summed in fp32 beside bf16 weights, as a training run does (fp64 beside fp64).
class ProbeWeights : public model::LocalWeights {
 public:
  ProbeWeights(std::vector<layout::UnitSpec> units, DType dtype, c10::Device device)
      : LocalWeights(units, dtype, device, false),
        grads_(units, dtype == kFloat64 ? kFloat64 : kFloat32, device, true) {}
  model::UnitGrad open(UnitId unit) override { return grads_.open(unit); }
  Tensor grad_of(std::string_view name) const { return grads_.grad(name); }

 private:
  model::LocalWeights grads_;
};

void probe(const Flags& flags) {
  const models::ModelSource source = source_of(flags);
  const model::ModelConfig& config = source.config;
  const c10::Device device =
      flags.device == "cuda" ? c10::Device(c10::kCUDA, 0) : c10::Device(c10::kCPU);
  const DType dtype = dtype_from_name(flags.dtype);
  ProbeWeights weights(source.units(), dtype, device);
  weights.fill(source.fill);
  const auto recompute = flags.recompute == "block"   ? model::Recompute::block
                         : flags.recompute == "light" ? model::Recompute::light
                                                      : model::Recompute::none;
  const auto choice = flags.attention == "flash" ? kernels::AttentionChoice::flash
                                                 : kernels::AttentionChoice::automatic;
  model::Transformer transformer(config, weights, &weights,
                                 {.recompute = recompute,
                                  .attention = {.choice = choice},
                                  .loss_chunk_rows = 0,
                                  .lora = source.lora});

  const models::SyntheticBatch rows = tokens_of(flags, config.vocab_size);
  const std::vector<float> frequencies = model::inv_freq(config);
  Tensor inv_freq = at::empty({static_cast<std::int64_t>(frequencies.size())}, at::kFloat);
  std::copy(frequencies.begin(), frequencies.end(), inv_freq.data_ptr<float>());
  const DType wide = dtype == kFloat64 ? kFloat64 : kFloat32;
  inv_freq = inv_freq.to(wide);
  const int heads = static_cast<int>(config.n_future);
  const model::Batch batch = models::upload_tokens(rows.view(), heads, inv_freq.to(device));

  Json report;
  std::vector<std::pair<std::string, Tensor>> values, grads, logits;
  model::TrunkPass trunk = transformer.forward_trunk(batch);
  double loss = 0;
  for (int head = 0; head < heads; ++head) {
    model::HeadPass pass = transformer.forward_head(trunk, batch, head);
    if (flags.logits)
      logits.emplace_back("head" + std::to_string(head), transformer.logits(trunk, pass).to(wide));
    const std::int64_t count = batch.heads[static_cast<std::size_t>(head)].count();
    const double scale = 1.0 / static_cast<double>(count) / heads;
    const Tensor nll = transformer.backward_head(
        trunk, std::move(pass), batch, at::full({count}, scale, inv_freq.options().device(device)));
    report["head_losses"].push_back(nll.mean().item<double>());
    loss += nll.mean().item<double>() / heads;
  }
  transformer.backward_trunk(std::move(trunk), batch);
  report["loss"] = loss;
  for (std::size_t d = 0; d + 1 < rows.doc_start.size(); ++d)
    report["tokens"].push_back(std::vector<std::int32_t>(
        rows.tokens.begin() + rows.doc_start[d], rows.tokens.begin() + rows.doc_start[d + 1]));
  for (const auto& unit : weights.units())
    for (const auto& param : unit.params) {
      values.emplace_back(param.name, weights.param(param.name));
      if (param.trained) grads.emplace_back(param.name, weights.grad_of(param.name));
    }
  std::filesystem::create_directories(flags.out);
  test::write_tensors(flags.out / "weights.safetensors", values);
  test::write_tensors(flags.out / "grads.safetensors", grads);
  if (flags.logits) test::write_tensors(flags.out / "logits.safetensors", logits);
  std::ofstream(flags.out / "probe.json") << report.dump() << "\n";
  std::cout << report["loss"] << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (!test::limit_simd_by_environment()) return 1;
  Flags flags;
  CLI::App app("one forward and backward, written out");
  app.add_option("--preset", flags.preset);
  app.add_option("--model", flags.model);
  app.add_option("--adapter", flags.adapter);
  app.add_option("--ids", flags.ids);
  app.add_option("--device", flags.device);
  app.add_option("--dtype", flags.dtype);
  app.add_option("--recompute", flags.recompute);
  app.add_option("--attention", flags.attention);
  app.add_option("--blocks", flags.blocks);
  app.add_option("--heads", flags.heads);
  app.add_option("--batch", flags.batch);
  app.add_option("--seq", flags.seq);
  app.add_option("--out", flags.out);
  app.add_flag("--logits", flags.logits);
  CLI11_PARSE(app, argc, argv);
  try {
    if (flags.device == "cuda") {
      const auto program = std::filesystem::canonical("/proc/self/exe");
      const std::string why =
          load_cuda_plugin((program.parent_path().parent_path() / "lib/libwmtp_cuda.so").string());
      if (!why.empty()) throw Error(ErrorKind::config, "probe", why);
    }
    probe(flags);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "wmtp_model_probe: " << error.what() << "\n";
    return 1;
  }
}
