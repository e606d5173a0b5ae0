#include "wmtp/exports/companions.h"

#include <fmt/format.h>

#include "wmtp/core/file.h"
#include "wmtp/core/json.h"
#include "wmtp/exports/base_name.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/token_ids.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/weights/new_file.h"
#include "wmtp/weights/peft_config.h"

namespace wmtp::exports {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTokenizerBytes = std::size_t{1} << 30;
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",          "tokenizer_config.json", "tokenizer.model", "chat_template.jinja",
    "special_tokens_map.json", "added_tokens.json",     "vocab.json",      "merges.txt"};

void write(const fs::path& path, std::string_view text) {
  if (!text.empty()) weights::write_new_file(path, text, storage::AtomicFile::kPublic);
}

void copy_tokenizer(const fs::path& from, const fs::path& to) {
  if (from.empty()) return;
  for (const char* name : kTokenizerFiles)
    if (fs::exists(from / name)) write(to / name, read_file(from / name, kMaxTokenizerBytes));
}

std::string transformers_name(DType dtype) {
  return dtype == kBFloat16 ? "bfloat16" : dtype == kFloat16 ? "float16" : "float32";
}

std::string config_text(const ExportSpec& spec) {
  model::ExportExtras extras;
  extras.value_head = spec.value_head;
  extras.heads_inside = spec.format == ExportFormat::pt;
  if (spec.keep_mtp && spec.format == ExportFormat::hf && spec.config.n_future > 1)
    extras.mtp_file = "mtp_heads.safetensors";
  return model::hf_config_text(spec.config, transformers_name(spec.dtype), extras);
}

std::string adapter_config_text(const ExportSpec& spec) {
  const model::LoraConfig& lora = *spec.lora;
  const std::string base =
      spec.base_folder.empty() ? spec.base_model : adapter_base_name(spec.base_folder, spec.out);
  weights::PeftConfig peft{.base_model = base,
                           .rank = lora.rank,
                           .alpha = lora.alpha,
                           .dropout = lora.dropout,
                           .rslora = lora.rslora,
                           .targets = lora.targets};
  // Modules that are not all alike stand there by their full names.
  if (!lora.modules.empty()) peft.targets.clear();
  for (const auto& [name, module] : lora.modules) {
    peft.targets.push_back(name);
    if (module.rank != lora.rank) peft.rank_pattern.emplace_back(name, module.rank);
    if (module.alpha != lora.alpha) peft.alpha_pattern.emplace_back(name, module.alpha);
  }
  return weights::peft_config_text(peft);
}

bool is_hub_name(std::string_view name) {
  const auto slash = name.find('/');
  return slash != name.npos && slash > 0 && slash + 1 < name.size() &&
         name.find('/', slash + 1) == name.npos && name.front() != '.' &&
         name.find_first_of(" :\"'\\\n") == name.npos;
}

std::string front_matter(const ExportSpec& spec) {
  const bool peft = spec.format == ExportFormat::peft;
  std::string text = fmt::format("---\nlibrary_name: {}\n", peft ? "peft" : "transformers");
  if (is_hub_name(spec.card.base_model))
    text += fmt::format("base_model: {}\n", spec.card.base_model);
  text += "pipeline_tag: text-generation\ntags:\n- wmtp\n";
  if (peft) text += "- lora\n";
  // A JSON string is a quoted scalar of YAML.
  for (const std::string& tag : spec.card.tags) text += fmt::format("- {}\n", Json(tag).dump());
  return text + "---\n\n";
}

}  // namespace

std::string model_card_text(const ExportSpec& spec) {
  const ModelCard& card = spec.card;
  std::string text = front_matter(spec);
  text += fmt::format("# {}\n\n", fs::path(spec.out).filename().string());
  auto fact = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("- {}: {}\n", name, value);
  };
  // Free text stays one line and cannot bring markup of its own.
  auto quoted = [](const std::string& value) {
    return tracking::escape_html(tracking::visible(value));
  };
  if (!card.description.empty()) text += quoted(card.description) + "\n\n";
  fact("Source", card.source);
  fact("Base model", quoted(card.base_model));
  fact("Reference model", quoted(card.reference));
  fact("Data", quoted(card.data));
  fact("Stage", card.stage);
  if (card.steps > 0) fact("Optimizer steps", fmt::format("{}", card.steps));
  fact("Parameters", fmt::format("{}", spec.config.total_parameters()));
  if (spec.lora)
    fact("LoRA", fmt::format("rank {}, alpha {}{}{}", spec.lora->rank, spec.lora->alpha,
                             spec.lora->modules.empty() ? "" : ", others in some modules",
                             spec.format == ExportFormat::peft ? "" : ", merged"));
  if (spec.keep_mtp && spec.config.n_future > 1)
    fact("Prediction heads",
         fmt::format("{}; those beyond the first in mtp_heads.safetensors", spec.config.n_future));
  fact("Made with", "wmtp");
  if (!card.metrics.empty()) {
    text += "\n## Metrics\n\n| metric | value |\n|---|---|\n";
    for (const auto& [name, value] : card.metrics)
      text += fmt::format("| {} | {:.6g} |\n", name, value);
  }
  if (!card.configuration.empty())
    text += fmt::format("\n## Configuration\n\n```yaml\n{}\n```\n", card.configuration);
  return text;
}

void write_companions(const fs::path& folder, const ExportSpec& spec, const ExportPlan& plan) {
  if (spec.format == ExportFormat::peft) {
    write(folder / "adapter_config.json", adapter_config_text(spec));
  } else {
    write(folder / "config.json", config_text(spec));
    write(folder / models::kGenerationConfigFile,
          model::generation_config_text(spec.config,
                                        models::read_generation_config(spec.generation_config)));
    write(folder / "model.safetensors.index.json", index_text(plan));
  }
  copy_tokenizer(spec.tokenizer_folder, folder);
  models::ExportMark mark{std::string(name_of(spec.format)), spec.card.source, std::nullopt,
                          spec.model_name};
  if (spec.card.steps > 0) mark.step = spec.card.steps;
  write(folder / models::kExportMarkFile, models::export_mark_text(mark));
  write(folder / "README.md", model_card_text(spec));
}

}  // namespace wmtp::exports
