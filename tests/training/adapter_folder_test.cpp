// Adapters on disk. With WMTP_PARITY_MODEL (a base model), WMTP_PARITY_IN (an adapter) and
// WMTP_PARITY_OUT set, the seam of tests/parity: opens both, writes the adapter again, and beside
// it probe.safetensors with head 1's logits of tokens (7 i + 3) mod V, i < 16.
#include "wmtp/training/adapter_folder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/checkpoint/safetensors_tensor.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/model/transformer.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/training/open_model.h"
#include "wmtp/training/upload.h"

namespace wmtp::training {
namespace {

namespace fs = std::filesystem;

Tensor drawn(const layout::ParamSpec& param) {
  const Tensor values = at::empty({param.numel()}, at::kFloat);
  model::draw_weights({param.name + ".drawn", param.shape}, 1, 0.1, 0, values);
  return values.view(param.shape);
}

model::LoraConfig some_lora(model::LoraScope scope = model::LoraScope::both) {
  model::LoraConfig lora;
  lora.rank = 4, lora.alpha = 6, lora.dropout = 0.125, lora.rslora = true, lora.scope = scope;
  lora.targets = {"q_proj", "down_proj"};
  return lora;
}

AdapterToWrite some_adapter(const char* preset, model::LoraScope scope = model::LoraScope::both) {
  return {.config = model::preset(preset),
          .lora = some_lora(scope),
          .base_model = "org/base",
          .read = drawn};
}

TEST(AdapterFolder, ReadsWhatItWrites) {
  using model::LoraScope;
  for (const auto& [preset, scope] :
       std::vector<std::pair<const char*, LoraScope>>{{"micro", LoraScope::both},
                                                      {"micro", LoraScope::trunk},
                                                      {"micro", LoraScope::heads},
                                                      {"micro-qwen3", LoraScope::both}}) {
    test::TempDir folder;
    const AdapterToWrite adapter = some_adapter(preset, scope);
    write_adapter(folder / "a", adapter);
    const OpenedAdapter opened = open_adapter(folder / "a", adapter.config);
    EXPECT_EQ(opened.lora, adapter.lora);
    EXPECT_EQ(opened.base_model, "org/base");
    std::size_t count = 0;
    for (const auto& unit : model::lora_units(adapter.config, adapter.lora))
      for (const auto& param : unit.params) {
        if (!param.trained) continue;
        const Tensor read = at::empty(param.shape, at::kFloat);
        opened.weights->read(param.name, 0, read);
        EXPECT_TRUE(read.equal(drawn(param))) << param.name;
        ++count;
      }
    EXPECT_EQ(opened.weights->tensors().size(), count);
  }
}

TEST(AdapterFolder, ExtraHeadsLieApart) {
  test::TempDir folder;
  write_adapter(folder / "a", some_adapter("micro"));
  for (const auto& tensor :
       checkpoint::SafetensorsFile::open(folder / "a/adapter_model.safetensors").tensors())
    EXPECT_TRUE(tensor.name.starts_with("base_model.model.model.layers.")) << tensor.name;
  EXPECT_EQ(checkpoint::SafetensorsFile::open(folder / "a/adapter_mtp_heads.safetensors")
                .tensors()
                .size(),
            3 * 2 * 2);
  write_adapter(folder / "a", some_adapter("micro", model::LoraScope::trunk));
  EXPECT_FALSE(fs::exists(folder / "a/adapter_mtp_heads.safetensors"));
}

TEST(AdapterFolder, RefusesWhatDoesNotFit) {
  test::TempDir folder;
  AdapterToWrite adapter = some_adapter("micro-llama");
  write_adapter(folder / "a", adapter);
  model::ModelConfig deeper = adapter.config, wider = adapter.config;
  ++deeper.num_blocks;
  wider.ffn_dim *= 2;
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", deeper), ErrorKind::config, "4 missing");
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", wider), ErrorKind::config, "not as expected");
  EXPECT_WMTP_ERROR(open_adapter(folder / "none", deeper), ErrorKind::config,
                    "adapter_config.json");
  fs::remove(folder / "a/adapter_model.safetensors");
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", adapter.config), ErrorKind::config,
                    "adapter_model.safetensors");
  adapter.config = model::preset("micro");
  adapter.lora.scope = model::LoraScope::trunk, adapter.lora.train_heads = true;
  EXPECT_WMTP_ERROR(write_adapter(folder / "b", adapter), ErrorKind::config, "heads");
  EXPECT_FALSE(fs::exists(folder / "b"));
}

void write_tensor(const fs::path& path, const std::string& name, const Tensor& tensor) {
  checkpoint::SafetensorsWriter writer(
      path, {{name, checkpoint::to_stored(tensor.scalar_type()), tensor.sizes().vec()}});
  writer.write(checkpoint::bytes_of(tensor));
  writer.commit();
}

TEST(AdapterFolder, RefusesOtherModules) {
  test::TempDir folder;
  const AdapterToWrite adapter = some_adapter("micro-llama");
  auto expect_refused = [&](const std::string& name, const std::string& part) {
    write_adapter(folder / "a", adapter);
    write_tensor(folder / "a/adapter_mtp_heads.safetensors", name, at::zeros({4, 128}, at::kFloat));
    EXPECT_WMTP_ERROR(open_adapter(folder / "a", adapter.config), ErrorKind::config, part);
  };
  expect_refused("base_model.model.model.embed_tokens.lora_embedding_A", "adapts an embedding");
  expect_refused("base_model.model.lm_head.lora_A.weight", "1 unexpected: lm_head.lora_A.weight");
  expect_refused("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                 "1 unexpected");
  expect_refused("something", "1 unexpected: something");
}

Tensor probe_logits(const OpenedModel& base, const OpenedAdapter& adapter) {
  model::LocalWeights weights(model::lora_units(base.config, adapter.lora), kFloat32,
                              c10::Device(c10::kCPU), false);
  weights.fill([&](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    (param.trained ? *adapter.weights : *base.folder.weights).read(param.name, begin, out);
  });
  model::Transformer transformer(base.config, weights, nullptr,
                                 {.recompute = model::Recompute::none,
                                  .attention = {},
                                  .loss_chunk_rows = 0,
                                  .lora = adapter.lora});
  std::vector<std::int32_t> tokens, positions;
  for (std::int32_t i = 0; i < 16; ++i) {
    tokens.push_back(static_cast<std::int32_t>((7 * i + 3) % base.config.vocab_size));
    positions.push_back(i);
  }
  const std::vector<std::int32_t> doc_start{0, 16};
  const std::vector<std::uint8_t> mask(16, 1);
  model::Batch batch = upload({tokens, positions, doc_start, mask}, 0,
                              at::tensor(model::inv_freq(base.config), at::kFloat));
  batch.heads.push_back({at::tensor(positions, at::kInt), at::zeros({16}, at::kInt)});
  const model::TrunkPass trunk = transformer.forward_trunk(batch);
  return transformer.logits(trunk, transformer.forward_head(trunk, batch, 0));
}

TEST(AdapterSeam, CopiesAndProbes) {
  const char *base_path = std::getenv("WMTP_PARITY_MODEL"), *in = std::getenv("WMTP_PARITY_IN"),
             *out = std::getenv("WMTP_PARITY_OUT");
  if (!base_path || !in || !out) GTEST_SKIP() << "run by tests/parity";
  const OpenedModel base = open_model(base_path, [](const std::string&) { return std::nullopt; });
  const OpenedAdapter adapter = open_adapter(in, base.config);
  write_adapter(out, {.config = base.config,
                      .lora = adapter.lora,
                      .base_model = adapter.base_model,
                      .read = [&](const layout::ParamSpec& param) {
                        const Tensor values = at::empty(param.shape, at::kFloat);
                        adapter.weights->read(param.name, 0, values);
                        return values;
                      }});
  write_tensor(fs::path(out) / "probe.safetensors", "logits", probe_logits(base, adapter));
}

}  // namespace
}  // namespace wmtp::training
