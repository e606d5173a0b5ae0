#include "wmtp/training/open_model.h"

#include <fmt/format.h>

#include "wmtp/checkpoint/weight_check.h"
#include "wmtp/core/error.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/meta_params.h"

namespace wmtp::training {
namespace {

constexpr const char* kValueHeadFile = "value_head.safetensors";

std::optional<std::int64_t> embedding_rows(const checkpoint::ModelFolder& folder) {
  if (!folder.weights) return std::nullopt;
  for (const char* name : {"tok_embeddings.weight", "model.embed_tokens.weight"})
    if (const auto* tensor = folder.weights->find(name); tensor && !tensor->shape.empty())
      return tensor->shape[0];
  return std::nullopt;
}

void read_hf(OpenedModel& opened) {
  const model::HfConfig read = model::read_hf_config(opened.folder.config_file);
  opened.config = read.model;
  opened.value_head = read.extras.value_head;
  if (!opened.has_weights()) return;
  if (!read.extras.mtp_file.empty())
    checkpoint::add_weights_file(opened.folder, read.extras.mtp_file);
  if (read.extras.value_head) checkpoint::add_weights_file(opened.folder, kValueHeadFile);
}

void check(const OpenedModel& opened) {
  checkpoint::WeightExpectations expected;
  expected.units = model::model_units(opened.config);
  if (opened.value_head)
    expected.units.push_back(model::value_head_unit(*opened.value_head, opened.config.dim));
  expected.tied = opened.config.tied;
  expected.inv_freq = model::inv_freq(opened.config);
  checkpoint::check_weights(*opened.folder.weights, expected);
}

}  // namespace

OpenedModel open_model(const std::string& name, const checkpoint::Environment& environment) {
  OpenedModel opened;
  opened.folder = checkpoint::open_model_folder(checkpoint::locate_model(name, environment));
  if (opened.folder.config_format == checkpoint::ConfigFormat::none) {
    checkpoint::find_config(opened.folder);
    opened.folder.tokenizer_folder = opened.folder.folder;
  }
  switch (opened.folder.config_format) {
    case checkpoint::ConfigFormat::hf_config:
      read_hf(opened);
      break;
    case checkpoint::ConfigFormat::meta_params:
      opened.config =
          model::read_meta_params(opened.folder.config_file, embedding_rows(opened.folder));
      break;
    case checkpoint::ConfigFormat::none:
      throw Error(ErrorKind::config, "model",
                  fmt::format("{} has no config.json or params.json", name));
  }
  if (!opened.has_weights()) return opened;
  if (opened.folder.meta_names)
    opened.folder.weights =
        checkpoint::rename(std::move(opened.folder.weights), model::meta_name_map(opened.config));
  check(opened);
  return opened;
}

}  // namespace wmtp::training
