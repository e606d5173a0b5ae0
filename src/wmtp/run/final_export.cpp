#include "wmtp/run/final_export.h"

#include "wmtp/core/log.h"
#include "wmtp/exports/exporter.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/model_name.h"
#include "wmtp/models/nf4/quantized_base.h"
#include "wmtp/run/plan/from_config.h"

namespace wmtp::run {
namespace {

std::filesystem::path place_of_final(const config::Config& config) {
  return config.runtime.run_dir / "final";
}

std::optional<exports::ExportFormat> format_of(const config::Config& config,
                                               const ModelPlan& policy) {
  switch (config.checkpoint.export_on_finish) {
    case config::ExportFormat::none:
      return std::nullopt;
    case config::ExportFormat::hf:
      return exports::ExportFormat::hf;
    case config::ExportFormat::peft:
      return exports::ExportFormat::peft;
    case config::ExportFormat::automatic:
      break;
  }
  // Heads that are trained whole have no place in an adapter.
  const bool adapters_only =
      config.training.use_lora && !config.training.lora.train_heads && policy.adapters_suffice;
  return adapters_only ? exports::ExportFormat::peft : exports::ExportFormat::hf;
}

// The base without adapters, as functions that exports and merging take.
models::ModelSource base_of(const ModelPlan& policy) {
  models::ModelSource base;
  base.fill = policy.fill;
  base.stored_nf4 = policy.stored_nf4;
  return base;
}

models::Unquantized unquantized_base(const ModelPlan& policy) {
  return models::unquantized_weights(base_of(policy), training::trainable_units(policy.assemble));
}

// The base's weights as the run has them, for adapters to be tried upon.
parallel::ReadParam base_fill(const ModelPlan& policy) {
  if (!policy.assemble.quantize) return policy.fill;
  return models::quantized_base(base_of(policy), training::trainable_units(policy.assemble),
                                policy.assemble.parallel.frozen_dtype.value_or(kFloat32))
      .fill;
}

exports::ExportSpec spec_of(Trainer& trainer, exports::ExportFormat format,
                            const std::string& configuration) {
  const config::Config& config = trainer.config();
  const ModelPlan& policy = trainer.plan();
  exports::ExportSpec spec;
  spec.out = place_of_final(config);
  spec.format = format;
  spec.config = policy.assemble.model;
  spec.lora = policy.assemble.transformer.lora;
  if (policy.assemble.value_head) spec.value_head = policy.assemble.value_head->type;
  // Adapters are small and their masters fp32: nothing is gained by rounding them.
  if (format != exports::ExportFormat::peft)
    spec.dtype = tensor_dtype(config.models.policy.dtype.value_or(config::DType::bf16));
  spec.keep_mtp = true;
  spec.tokenizer_folder = trainer.data().tokenizer_folder();
  spec.generation_config = policy.generation_config;
  spec.base_model = policy.base_model;
  spec.base_folder = policy.base_folder;
  if (policy.assemble.quantize) spec.unquantized = unquantized_base(policy);
  spec.nf4_base = policy.assemble.quantize || policy.stored_nf4;
  spec.model_name = models::model_name(config);
  spec.total_steps = trainer.state().step;
  spec.card.source = config.runtime.run_dir.string();
  spec.card.base_model = policy.base_model;
  const tracking::RunLabels labels = trainer.facts().labels;
  spec.card.data = labels.dataset;
  spec.card.description = labels.description;
  spec.card.tags = labels.tags;
  spec.card.reference = labels.reference;
  spec.card.stage = config::name_of(config.experiment.stage);
  spec.card.steps = trainer.state().step;
  if (trainer.state().best)
    spec.card.metrics.emplace_back("best " + trainer.state().best->metric,
                                   trainer.state().best->value);
  spec.card.configuration = configuration;
  return spec;
}

// What the run itself computes. COLLECTIVE.
exports::ExportReference reference_of(Trainer& trainer) {
  training::TrainableModel& model = trainer.model();
  exports::ExportReference reference;
  model.runtime().begin_evaluation(/*kind=*/3);
  reference.logits = exports::probe_logits(model.reader(), model.inv_freq());
  reference.computed_in = trainer.plan().assemble.parallel.param_dtype;
  reference.base = base_fill(trainer.plan());
  return reference;
}

}  // namespace

void require_place_of_final(const config::Config& config) {
  if (config.checkpoint.export_on_finish == config::ExportFormat::none) return;
  weights::FreshFolder::require_replaceable(place_of_final(config), exports::is_export_file,
                                            models::kExportMarkFile);
}

std::optional<std::filesystem::path> export_final(Trainer& trainer,
                                                  const std::string& configuration,
                                                  comm::ProcessGroupSession& session) {
  const auto format = format_of(trainer.config(), trainer.plan());
  if (!format) return std::nullopt;
  const bool writes = session.rank() == 0;
  const exports::ExportSpec spec = spec_of(trainer, *format, configuration);
  const exports::ExportReference reference = reference_of(trainer);
  std::optional<exports::Exporter> exporter;
  if (writes) exporter.emplace(spec);
  trainer.model().runtime().gather_full(
      [&exporter](const layout::ParamSpec& param, const Tensor& whole) {
        exporter->take(param.name, whole);
      });
  if (writes) {
    const exports::ExportReport report = exporter->finish(reference);
    log::info("train", "final: {} tensors, {:.1f} MB in {}; its logits are {:.1g} off the run's{}",
              report.num_tensors, static_cast<double>(report.bytes) / 1e6, report.folder.string(),
              report.logit_difference.value_or(0), exports::nf4_text(report));
  }
  session.gather_group().barrier("final");
  return spec.out;
}

}  // namespace wmtp::run
