// Exports from tensors in the order of a run: unit by unit, trained before frozen ones.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/drawn.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/exports/from_source.h"
#include "wmtp/exports/plan.h"
#include "wmtp/model/adapters.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/open_model.h"
#include "wmtp/models/trainable.h"
#include "wmtp/weights/safetensors.h"

namespace wmtp::exports {
namespace {

namespace fs = std::filesystem;
using test::drawn;

std::optional<std::string> no_environment(const std::string&) {
  return std::nullopt;
}

parallel::ReadParam drawing() {
  return [](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    out.copy_(drawn(param).view({-1}).narrow(0, begin, out.numel()).view(out.sizes()));
  };
}

model::LoraConfig some_lora() {
  model::LoraConfig lora;
  lora.rank = 4, lora.alpha = 6;
  lora.targets = {"q_proj", "k_proj", "up_proj"};
  return lora;
}

ExportSpec spec_of(const char* preset, ExportFormat format, const fs::path& out) {
  ExportSpec spec;
  spec.config = model::preset(preset);
  spec.format = format;
  spec.out = out;
  return spec;
}

// As Runtime::gather_full hands them out.
void take_as_a_run(Exporter& exporter, const std::vector<layout::UnitSpec>& units) {
  for (const layout::UnitSpec& unit : units)
    for (const bool trained : {true, false})
      for (const layout::ParamSpec& param : unit.params)
        if (param.trained == trained) exporter.take(param.name, drawn(param));
}

Tensor read(const models::OpenedModel& model, const std::string& name) {
  const auto* stored = model.folder.weights->find(name);
  const Tensor values = at::empty(stored->shape, at::kFloat);
  model.folder.weights->read(*stored, 0, values);
  return values;
}

TEST(Exports, ARunsTensorsBecomeAModelFolder) {
  test::TempDir folder;
  ExportSpec spec = spec_of("micro", ExportFormat::hf, folder / "out");
  spec.keep_mtp = true;
  spec.value_head = model::ValueHeadType::mlp;
  spec.max_shard_bytes = 300'000;
  std::vector<layout::UnitSpec> units = model::model_units(spec.config);
  units.push_back(model::value_head_unit(model::ValueHeadType::mlp, spec.config.dim));
  Exporter exporter(spec);
  take_as_a_run(exporter, units);
  EXPECT_FALSE(fs::exists(folder / "out"));
  const ExportReport report =
      exporter.finish({probe_logits(spec.config, std::nullopt, drawing()), nullptr});
  EXPECT_TRUE(report.verified);
  EXPECT_EQ(report.logit_difference.value(), 0);
  EXPECT_TRUE(fs::exists(folder / "out/model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
  const models::OpenedModel opened = models::open_model(folder / "out", no_environment);
  EXPECT_EQ(opened.value_head, model::ValueHeadType::mlp);
  EXPECT_EQ(opened.config.n_future, 4);
  for (const auto& unit : units)
    for (const auto& param : unit.params)
      EXPECT_TRUE(read(opened, param.name).equal(drawn(param))) << param.name;
}

TEST(Exports, AdaptersAreMergedInAnyOrder) {
  test::TempDir folder;
  for (const ExportFormat format : {ExportFormat::hf, ExportFormat::pt}) {
    ExportSpec spec = spec_of("micro-qwen3", format, folder / name_of(format));
    spec.lora = some_lora();
    Exporter exporter(spec);
    take_as_a_run(exporter, model::lora_units(spec.config, *spec.lora));
    exporter.finish({probe_logits(spec.config, spec.lora, drawing()), nullptr});
    const models::OpenedModel opened = models::open_model(folder / name_of(format), no_environment);
    const std::string module = "model.layers.1.mlp.up_proj";
    const auto shape = opened.folder.weights->find(module + ".weight")->shape;
    const Tensor expected = model::merged(drawn({module + ".weight", shape}),
                                          drawn({module + ".lora_A.weight", {4, shape[1]}}),
                                          drawn({module + ".lora_B.weight", {shape[0], 4}}), 1.5);
    EXPECT_TRUE(read(opened, module + ".weight").equal(expected));
    EXPECT_FALSE(opened.lora);
  }
}

TEST(Exports, AWrongTensorOrProbeIsFound) {
  test::TempDir folder;
  const ExportSpec spec = spec_of("micro-llama", ExportFormat::hf, folder / "out");
  const auto units = model::model_units(spec.config);
  {
    Exporter exporter(spec);
    take_as_a_run(exporter, units);
    ProbeLogits logits = probe_logits(spec.config, std::nullopt, drawing());
    logits[0].mul_(1.01);
    EXPECT_WMTP_ERROR(exporter.finish({logits, nullptr}), ErrorKind::numeric, "logits differ");
  }
  {
    Exporter exporter(spec);
    exporter.take("model.norm.weight", at::empty({3}, at::kFloat));
    EXPECT_TRUE(exporter.failed());
    EXPECT_WMTP_ERROR(exporter.finish(), ErrorKind::internal, "another shape");
  }
  {
    Exporter exporter(spec);  // not all tensors
    EXPECT_WMTP_ERROR(exporter.finish(), ErrorKind::internal, "missing");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Exports, PeftNeedsAdapters) {
  test::TempDir folder;
  EXPECT_WMTP_ERROR(Exporter(spec_of("micro-llama", ExportFormat::peft, folder / "out")),
                    ErrorKind::config, "no adapters");
  models::ModelSource source = models::open_model_source("micro-llama", no_environment);
  EXPECT_WMTP_ERROR(
      export_source(source, spec_of("micro-llama", ExportFormat::hf, folder / "out"), true),
      ErrorKind::config, "no adapters to merge");
  source.lora = some_lora();
  EXPECT_WMTP_ERROR(
      export_source(source, spec_of("micro-llama", ExportFormat::hf, folder / "out"), false),
      ErrorKind::config, "--merge-lora");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Exports, AnAdapterFolderIsAModel) {
  test::TempDir folder;
  const ExportSpec base = spec_of("micro-llama", ExportFormat::hf, folder / "base");
  {
    Exporter exporter(base);
    take_as_a_run(exporter, model::model_units(base.config));
    exporter.finish();
  }
  ExportSpec spec = spec_of("micro-llama", ExportFormat::peft, folder / "adapter");
  spec.lora = some_lora();
  spec.base_model = "../base";
  spec.value_head = model::ValueHeadType::linear;
  Exporter exporter(spec);
  take_as_a_run(exporter, model::lora_units(spec.config, *spec.lora));
  const auto value_head = model::value_head_unit(model::ValueHeadType::linear, spec.config.dim);
  for (const auto& param : value_head.params) exporter.take(param.name, drawn(param));
  const ProbeLogits logits = probe_logits(spec.config, spec.lora, drawing());
  EXPECT_EQ(exporter.finish({logits, drawing()}).logit_difference.value(), 0);
  const models::ModelSource source = models::open_model_source(folder / "adapter", no_environment);
  EXPECT_EQ(source.lora, spec.lora);
  EXPECT_EQ(source.value_head, spec.value_head);
  EXPECT_EQ(probe_difference(logits, probe_logits(source.config, source.lora, source.fill)), 0);
  models::ModelSource applied = models::open_model_source(folder / "base", no_environment);
  EXPECT_GT(probe_difference(logits, probe_logits(applied.config, {}, applied.fill)), 1e-3);
  models::apply_adapter(applied, folder / "adapter");
  EXPECT_EQ(probe_difference(logits, probe_logits(applied.config, applied.lora, applied.fill)), 0);
  EXPECT_WMTP_ERROR(models::apply_adapter(applied, folder / "adapter"), ErrorKind::config,
                    "already");
  EXPECT_WMTP_ERROR(models::open_model(folder / "base", no_environment, "x"), ErrorKind::config,
                    "no adapter");
  fs::rename(folder / "base", folder / "moved");
  EXPECT_WMTP_ERROR(models::open_model(folder / "adapter", no_environment), ErrorKind::config,
                    "../base");
  EXPECT_TRUE(models::open_model(folder / "adapter", no_environment, folder / "moved").lora);
}

TEST(Exports, ALargeTensorHasItsOwnFile) {
  ExportSpec spec = spec_of("micro-llama", ExportFormat::hf, "unused");
  spec.max_shard_bytes = 1;
  const ExportPlan plan = plan_export(spec);
  EXPECT_EQ(plan.files.size(), plan.tensors.size());
  spec.max_shard_bytes = 1ull << 40;
  EXPECT_EQ(plan_export(spec).files.size(), 1u);
  EXPECT_EQ(index_text(plan_export(spec)), "");
}

TEST(Trainable, CountsAndNames) {
  const model::ModelConfig config = model::preset("llama-mtp-7b");
  model::LoraConfig lora;
  const models::TrainableParameters trained =
      models::trainable_parameters(model::lora_units(config, lora));
  EXPECT_EQ(trained.trained, 8'388'608);
  EXPECT_EQ(trained.total, config.total_parameters() + 8'388'608);
  EXPECT_EQ(trained.params.size(), 32u * 4 * 2);
  EXPECT_EQ(trained.lines().size(), 2u * 4 * 2);
  EXPECT_EQ(trained.lines()[0], "model.layers.*.self_attn.q_proj.lora_A.weight [8, 4096] x 29");
  EXPECT_THAT(trained.summary(), testing::StartsWith("trainable: 8,388,608 of 6,7"));
  const models::TrainableParameters all = models::trainable_parameters(model::model_units(config));
  EXPECT_EQ(all.share(), 1);
}

}  // namespace
}  // namespace wmtp::exports
