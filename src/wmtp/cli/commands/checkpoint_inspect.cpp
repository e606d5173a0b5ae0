#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <iostream>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/models/adapter_folder.h"
#include "wmtp/models/open_model.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/weights/peft_config.h"
#include "wmtp/weights/safetensors_tensor.h"

namespace wmtp::cli {
namespace {

using nlohmann::ordered_json;
using weights::StoredTensor;
using weights::WeightSource;

struct WeightsFlags {
  std::string path;
  bool tensors = false, raw = false;
};

// Of the elements as a reader gets them, in pieces, so that large tensors cost no memory.
std::string tensor_sha256(const WeightSource& source, const StoredTensor& tensor) {
  const auto dtype = weights::to_dtype(tensor.dtype);
  if (!dtype) return "";
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  const std::int64_t total = weights::numel(tensor.shape);
  const Tensor buffer = at::empty({std::min(kPiece, total)}, at::TensorOptions().dtype(*dtype));
  Sha256 hash;
  for (std::int64_t at = 0; at < total; at += kPiece) {
    const Tensor piece = buffer.narrow(0, 0, std::min(kPiece, total - at));
    source.read(tensor, at, piece);
    hash.update(weights::bytes_of(piece));
  }
  return to_hex(hash.finish());
}

// In the file; of a weight in 4 bits with its scales.
std::uint64_t stored_bytes(const WeightSource& source, const StoredTensor& tensor) {
  if (!source.has_nf4(tensor)) return weights::tensor_bytes(tensor.dtype, tensor.shape).value_or(0);
  const std::int64_t count = weights::numel(tensor.shape), blocks = kernels::nf4_blocks(count);
  const auto first = source.read_nf4(tensor, 0, std::min(count, kernels::kNf4Block));
  const bool nested = first && first->scales.nested();
  return static_cast<std::uint64_t>(
      kernels::nf4_bytes(count) + (nested ? blocks + 4 * kernels::nf4_groups(blocks) : 4 * blocks));
}

void show_tensors(const WeightSource& source, const Session& session) {
  for (const StoredTensor& tensor : source.tensors()) {
    const auto bytes = stored_bytes(source, tensor);
    const auto dtype = source.has_nf4(tensor) ? "NF4" : weights::name_of(tensor.dtype);
    const auto file = std::filesystem::path(source.file_of(tensor)).filename().string();
    if (session.json)
      emit_json("tensor",
                {{"name", tensor.name},
                 {"dtype", dtype},
                 {"shape", tensor.shape},
                 {"bytes", bytes},
                 {"file", file},
                 {"sha256", tensor_sha256(source, tensor)}},
                false);
    else
      std::cout << fmt::format("{:<60} {:>5} {:<18} {:>14}  {}\n", tensor.name, dtype,
                               weights::shape_text(tensor.shape), bytes, file);
  }
}

ordered_json config_fields(const model::ModelConfig& config) {
  ordered_json rope{{"theta", config.rope.theta}};
  if (const auto& s = config.rope.scaling)
    rope["llama3"] = {{"factor", s->factor},
                      {"low_freq_factor", s->low_freq_factor},
                      {"high_freq_factor", s->high_freq_factor},
                      {"original_positions", s->original_positions}};
  rope["inv_freq"] = model::inv_freq(config);
  return {{"architecture", model::name_of(config.architecture)},
          {"parameters", config.total_parameters()},
          {"dim", config.dim},
          {"num_blocks", config.num_blocks},
          {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"ffn_dim", config.ffn_dim},
          {"vocab_size", config.vocab_size},
          {"n_future_tokens", config.n_future},
          {"tied", config.tied},
          {"norm_eps", config.norm_eps},
          {"max_positions", config.max_positions},
          {"eos_ids", config.eos_ids},
          {"rope", rope}};
}

void show_model(const models::OpenedModel& model, const Session& session) {
  const model::ModelConfig& config = model.config;
  if (session.json) {
    emit_json("model", config_fields(config), false);
    return;
  }
  std::cout << fmt::format(
      "{}: {} parameters, hidden {}, {} blocks, {} prediction heads, vocabulary {}{}\n",
      model::name_of(config.architecture), config.total_parameters(), config.dim, config.num_blocks,
      config.n_future, config.vocab_size, config.tied ? ", tied" : "");
}

void show_total(const WeightSource& source, const Session& session) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : source.tensors()) bytes += stored_bytes(source, tensor);
  if (session.json)
    emit_json("result", {{"tensors", source.tensors().size()}, {"bytes", bytes}}, false);
  else
    std::cout << fmt::format("{} tensors, {} bytes\n", source.tensors().size(), bytes);
}

// As stored: the base need not be at hand.
int inspect_adapter(const std::filesystem::path& folder, const WeightsFlags& flags,
                    const Session& session) {
  const weights::PeftConfig adapter =
      weights::read_peft_config(folder / models::kAdapterConfigFile);
  if (session.json)
    emit_json("adapter",
              {{"base_model", adapter.base_model},
               {"rank", adapter.rank},
               {"alpha", adapter.alpha},
               {"dropout", adapter.dropout},
               {"rslora", adapter.rslora},
               {"targets", adapter.targets}},
              false);
  else
    std::cout << fmt::format("LoRA adapter: rank {}, alpha {}{}, base {}, targets {}\n",
                             adapter.rank, adapter.alpha, adapter.rslora ? " (rsLoRA)" : "",
                             adapter.base_model.empty() ? "not named" : adapter.base_model,
                             adapter.targets.empty()
                                 ? "by pattern"
                                 : fmt::format("{}", fmt::join(adapter.targets, ", ")));
  const auto tensors = models::open_adapter_tensors(folder);
  if (flags.tensors) show_tensors(*tensors, session);
  show_total(*tensors, session);
  return 0;
}

int inspect(const WeightsFlags& flags, const Session& session) {
  const std::filesystem::path path =
      models::resolve_model_path(models::locate(flags.path, comm::process_environment()));
  if (models::is_checkpoint(path)) {
    if (flags.raw)
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("{} is a checkpoint: its names are as stored", path.string()),
                  "--raw is for model folders and weights files");
    return inspect_saved(path, flags.tensors, session);
  }
  const bool is_copied = models::is_remote(path);
  const std::filesystem::path place = is_copied ? models::copy_small_files(path) : path;
  if (models::is_adapter_folder(place)) return inspect_adapter(place, flags, session);
  weights::ModelFolder folder = weights::open_model_folder(place);
  if (is_copied) weights::use_remote_weights(folder, models::files_of(path), path);
  const bool as_model = !flags.raw && folder.config_format != weights::ConfigFormat::none;
  if (as_model) {
    models::OpenedModel model = models::open_model(path.string(), comm::process_environment());
    show_model(model, session);
    folder = std::move(model.folder);
  }
  if (!folder.weights) return 0;
  if (flags.tensors) show_tensors(*folder.weights, session);
  show_total(*folder.weights, session);
  return 0;
}

}  // namespace

void add_checkpoint_inspect(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "inspect", "Show what a model or PEFT folder, a weights file, a run or a checkpoint holds");
  auto flags = std::make_shared<WeightsFlags>();
  command
      ->add_option("path", flags->path,
                   "Model, PEFT or run folder, weights file, checkpoint or a pointer to one, or "
                   "org/name in the local cache")
      ->required()
      ->type_name("PATH");
  command->add_flag("--tensors", flags->tensors,
                    "List every tensor; with --json also its SHA-256, but for checkpoints");
  command->add_flag("--raw", flags->raw,
                    "Names and rows as stored, no check against the configuration; not for "
                    "checkpoints");
  command->footer(
      "  wmtp checkpoint inspect models/llama --tensors\n"
      "  wmtp checkpoint inspect runs/demo/checkpoints/qwen3_0_6b-best\n"
      "  wmtp --json checkpoint inspect weights.pth --raw");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return inspect(*flags, session); }; });
}

}  // namespace wmtp::cli
