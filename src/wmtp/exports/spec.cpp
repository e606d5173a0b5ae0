#include "wmtp/exports/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/error.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/token_ids.h"

namespace wmtp::exports {
namespace {

constexpr std::array<std::pair<ExportFormat, std::string_view>, 3> kFormats{
    {{ExportFormat::hf, "hf"}, {ExportFormat::peft, "peft"}, {ExportFormat::pt, "pt"}}};

constexpr std::array<std::string_view, 20> kFiles{
    "config.json",
    models::kGenerationConfigFile,
    "model.safetensors",
    "model.safetensors.index.json",
    "mtp_heads.safetensors",
    "value_head.safetensors",
    "adapter_config.json",
    "adapter_model.safetensors",
    "adapter_mtp_heads.safetensors",
    "checkpoint.pt",
    models::kExportMarkFile,
    "README.md",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "chat_template.jinja",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
};

}  // namespace

std::string_view name_of(ExportFormat format) {
  for (const auto& [key, name] : kFormats)
    if (key == format) return name;
  WMTP_CHECK(false, "unknown export format");
}

ExportFormat export_format(std::string_view name) {
  for (const auto& [format, key] : kFormats)
    if (key == name) return format;
  throw Error(ErrorKind::config, "export", fmt::format("there is no format {}", name),
              "known are hf, peft, pt");
}

DType default_export_dtype(const model::ModelConfig& config, DType otherwise) {
  if (config.dtype.empty()) return otherwise;
  const DType dtype = dtype_from_name(config.dtype);
  const bool can = dtype == kFloat32 || dtype == kBFloat16 || dtype == kFloat16;
  return can ? dtype : otherwise;
}

bool is_export_file(std::string_view name) {
  const bool is_shard = name.starts_with("model-") && name.ends_with(".safetensors");
  return is_shard || std::ranges::find(kFiles, name) != kFiles.end();
}

}  // namespace wmtp::exports
