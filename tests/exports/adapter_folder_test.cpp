#include "wmtp/models/adapter_folder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/drawn.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "tools/write_tensors.h"
#include "wmtp/exports/exporter.h"
#include "wmtp/model/presets.h"

namespace wmtp::exports {
namespace {

namespace fs = std::filesystem;
using model::LoraScope;
using models::adapter_params;
using models::open_adapter;
using models::OpenedAdapter;
using test::drawn;

ExportSpec some_adapter(const char* preset, LoraScope scope = LoraScope::both) {
  ExportSpec spec;
  spec.format = ExportFormat::peft;
  spec.config = model::preset(preset);
  spec.lora.emplace();
  spec.lora->rank = 4, spec.lora->alpha = 6, spec.lora->dropout = 0.125;
  spec.lora->rslora = true, spec.lora->scope = scope;
  spec.lora->targets = {"q_proj", "down_proj"};
  spec.base_model = "org/base";
  return spec;
}

void write_adapter(const fs::path& folder, ExportSpec spec) {
  spec.out = folder;
  Exporter exporter(spec);
  for (const layout::ParamSpec& param : exporter.wanted()) exporter.take(param.name, drawn(param));
  exporter.finish();
}

TEST(AdapterFolder, ReadsWhatExportsWrite) {
  for (const auto& [preset, scope] :
       std::vector<std::pair<const char*, LoraScope>>{{"micro", LoraScope::both},
                                                      {"micro", LoraScope::trunk},
                                                      {"micro", LoraScope::heads},
                                                      {"micro-qwen3", LoraScope::both}}) {
    test::TempDir folder;
    ExportSpec spec = some_adapter(preset, scope);
    spec.value_head = model::ValueHeadType::sigmoid;
    write_adapter(folder / "a", spec);
    const OpenedAdapter opened = open_adapter(folder / "a", spec.config);
    EXPECT_EQ(opened.lora, *spec.lora);
    EXPECT_EQ(opened.base_model, "org/base");
    EXPECT_EQ(opened.value_head, spec.value_head);
    std::vector<layout::ParamSpec> params = adapter_params(spec.config, *spec.lora);
    for (const auto& param :
         model::value_head_unit(model::ValueHeadType::sigmoid, spec.config.dim).params)
      params.push_back(param);
    for (const auto& param : params) {
      const Tensor read = at::empty(param.shape, at::kFloat);
      opened.weights->read(param.name, 0, read);
      EXPECT_TRUE(read.equal(drawn(param))) << param.name;
    }
    EXPECT_EQ(opened.weights->tensors().size(), params.size());
  }
}

TEST(AdapterFolder, ExtraHeadsLieApart) {
  test::TempDir folder;
  write_adapter(folder / "a", some_adapter("micro"));
  const auto file = weights::SafetensorsFile::open(folder / "a/adapter_model.safetensors");
  for (const auto& tensor : file.tensors())
    EXPECT_TRUE(tensor.name.starts_with("base_model.model.model.layers.")) << tensor.name;
  EXPECT_EQ(
      weights::SafetensorsFile::open(folder / "a/adapter_mtp_heads.safetensors").tensors().size(),
      3 * 2 * 2);
  // On the plain model that other tools load, the rest still applies.
  model::ModelConfig plain = model::preset("micro");
  plain.num_blocks = plain.num_layers(), plain.n_future = 1;
  plain.architecture = model::Architecture::llama;
  EXPECT_EQ(open_adapter(folder / "a", plain).weights->tensors().size(),
            static_cast<std::size_t>(plain.num_blocks) * 2 * 2);
  write_adapter(folder / "a", some_adapter("micro", LoraScope::trunk));
  EXPECT_FALSE(fs::exists(folder / "a/adapter_mtp_heads.safetensors"));
}

TEST(AdapterFolder, RefusesWhatDoesNotFit) {
  test::TempDir folder;
  ExportSpec spec = some_adapter("micro-llama");
  write_adapter(folder / "a", spec);
  model::ModelConfig deeper = spec.config, wider = spec.config;
  ++deeper.num_blocks;
  wider.ffn_dim *= 2;
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", deeper), ErrorKind::config, "4 missing");
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", wider), ErrorKind::config, "not as expected");
  EXPECT_WMTP_ERROR(open_adapter(folder / "none", deeper), ErrorKind::config,
                    "adapter_config.json");
  fs::remove(folder / "a/adapter_model.safetensors");
  EXPECT_WMTP_ERROR(open_adapter(folder / "a", spec.config), ErrorKind::config,
                    "adapter_model.safetensors");
  spec.config = model::preset("micro");
  spec.lora->scope = LoraScope::trunk, spec.lora->train_heads = true;
  EXPECT_WMTP_ERROR(write_adapter(folder / "b", spec), ErrorKind::config, "heads");
  EXPECT_FALSE(fs::exists(folder / "b"));
}

TEST(AdapterFolder, RefusesOtherModules) {
  test::TempDir folder;
  const ExportSpec spec = some_adapter("micro");
  auto expect_refused = [&](const std::string& name, const std::string& part) {
    write_adapter(folder / "a", spec);
    test::write_tensors(folder / "a/adapter_mtp_heads.safetensors",
                        {{name, at::zeros({4, 128}, at::kFloat)}});
    EXPECT_WMTP_ERROR(open_adapter(folder / "a", spec.config), ErrorKind::config, part);
  };
  expect_refused("base_model.model.model.embed_tokens.lora_embedding_A", "adapts an embedding");
  expect_refused("base_model.model.lm_head.lora_A.weight", "1 unexpected: lm_head.lora_A.weight");
  expect_refused("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
                 "1 unexpected");
  expect_refused("something", "1 unexpected: something");
}

}  // namespace
}  // namespace wmtp::exports
