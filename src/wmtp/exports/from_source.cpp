#include "wmtp/exports/from_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/models/token_ids.h"

namespace wmtp::exports {
namespace {

// Straight in the export's dtype, but for what is still to be merged.
DType reading_dtype(const models::ModelSource& source, const ExportSpec& spec,
                    const layout::ParamSpec& param) {
  const bool keeps_fp32 = source.lora || param.name.starts_with("value_head.");
  return keeps_fp32 ? kFloat32 : spec.dtype;
}

void refuse_to_replace_source(const models::ModelSource& source, const std::filesystem::path& out) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const fs::path& path : source.read_from) {
    const fs::path folder =
        fs::is_directory(path, ignored) ? path : fs::absolute(path).parent_path();
    if (fs::equivalent(folder, out, ignored))
      throw Error(
          ErrorKind::config, "export",
          fmt::format("{} is what the export is made from; it is left as it is", out.string()),
          "name another folder");
  }
}

// Nothing where there is none, or one that wmtp cannot read: its files are copied anyway.
std::shared_ptr<const tokenizer::Tokenizer> tokenizer_of(const models::ModelSource& source) {
  const auto has = [&source](const char* name) {
    std::error_code ignored;
    return std::filesystem::exists(source.tokenizer_folder / name, ignored);
  };
  if (source.tokenizer_folder.empty() ||
      (!has("tokenizer.json") && !has("tokenizer.model") && !has("vocab.json")))
    return nullptr;
  try {
    return tokenizer::load_tokenizer(source.tokenizer_folder);
  } catch (const Error& error) {
    log::warn("export", "the tokenizer's ids are not known: {}", error.fact());
    return nullptr;
  }
}

}  // namespace

ExportReport export_source(const models::ModelSource& source, ExportSpec spec, bool merge_lora) {
  if (source.lora && spec.format != ExportFormat::peft && !merge_lora)
    throw Error(ErrorKind::config, "export",
                fmt::format("the model has adapters, and {} holds whole weights only",
                            name_of(spec.format)),
                "merge them with --merge-lora, or export them with --format peft");
  if (source.changes_base && spec.format == ExportFormat::peft)
    throw Error(ErrorKind::config, "export",
                "the file has trained weights of the base beside its adapters (extra heads), which "
                "a folder of PEFT cannot hold",
                "export the merged model with --format hf --merge-lora --keep-mtp");
  if (!source.lora && merge_lora)
    throw Error(ErrorKind::config, "export", "there are no adapters to merge");
  refuse_to_replace_source(source, spec.out);
  spec.config = source.config;
  spec.lora = source.lora;
  spec.value_head = source.value_head;
  spec.unquantized = source.unquantized;
  spec.nf4_base = source.unquantized || source.stored_nf4;
  spec.tokenizer_folder = source.tokenizer_folder;
  spec.generation_config = source.generation_config;
  models::resolve_token_ids(spec.config, spec.generation_config, tokenizer_of(source).get());
  if (source.read_from.size() > 1) spec.base_folder = source.read_from[1];
  if (spec.base_model.empty()) spec.base_model = source.base_model;
  if (spec.card.base_model.empty()) spec.card.base_model = spec.base_model;
  if (!source.read_from.empty()) spec.card.source = source.read_from.front().string();
  spec.card.steps = source.step.value_or(0);
  Exporter exporter(spec);
  for (const layout::ParamSpec& param : exporter.wanted()) {
    const auto options = at::TensorOptions().dtype(reading_dtype(source, spec, param));
    const Tensor whole = at::empty(param.shape, options);
    source.fill(param, 0, whole.view({-1}));
    exporter.take(param.name, whole);
    if (exporter.failed()) break;
  }
  ExportReference reference;
  if (spec.verify && !exporter.failed()) {
    reference.logits = probe_logits(source.config, source.lora, source.fill);
    reference.base = source.fill;
  }
  return exporter.finish(reference);
}

}  // namespace wmtp::exports
