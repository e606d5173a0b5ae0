#include <fmt/format.h>

#include <iostream>

#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/models/remote/file_systems.h"

namespace wmtp::cli {
namespace {

using checkpoint::Manifest;
using checkpoint::Part;
using nlohmann::ordered_json;

void show_saved_tensors(const Manifest& manifest, const Session& session) {
  for (const Part part : {Part::model, Part::optim})
    for (const auto& [name, tensor] : manifest.tensors(part)) {
      const auto bytes = storage::tensor_bytes(tensor.dtype, tensor.shape).value_or(0);
      if (session.json)
        emit_json("tensor",
                  {{"name", name},
                   {"dtype", storage::name_of(tensor.dtype)},
                   {"shape", tensor.shape},
                   {"bytes", bytes},
                   {"part", checkpoint::name_of(part)}},
                  false);
      else
        std::cout << fmt::format("{:<60} {:>5} {:<18} {:>14}  {}\n", name,
                                 storage::name_of(tensor.dtype), storage::shape_text(tensor.shape),
                                 bytes, checkpoint::name_of(part));
    }
}

ordered_json summary(const std::filesystem::path& folder, const Manifest& manifest,
                     const Json& state) {
  return {{"folder", folder.string()},
          {"model", manifest.model},
          {"step", manifest.step},
          {"kind", checkpoint::name_of(manifest.kind)},
          {"run_id", manifest.run_id},
          {"created", manifest.created},
          {"wmtp", manifest.wmtp},
          {"world_size", manifest.world_size},
          {"strategy", manifest.strategy},
          {"epoch", state.at("epoch")},
          {"samples_seen", state.at("samples_seen")},
          {"tokens_seen", state.at("tokens_seen")},
          {"files", manifest.files.size()},
          {"tensors", manifest.model_tensors.size() + manifest.optim_tensors.size()},
          {"bytes", manifest.total_bytes()}};
}

}  // namespace

int inspect_saved(const std::filesystem::path& folder, bool tensors, const Session& session) {
  const auto files = models::files_of(folder);
  checkpoint::CheckpointReader reader(*files, folder);
  reader.check_presence();
  const Json state =
      checkpoint::parse_trainer_state(reader.text(checkpoint::kTrainerStateFile),
                                      (folder / checkpoint::kTrainerStateFile).string());
  if (tensors) show_saved_tensors(reader.manifest(), session);
  const ordered_json facts = summary(folder, reader.manifest(), state);
  if (session.json) {
    emit_json("result", facts, false);
    return 0;
  }
  for (const auto& [key, value] : facts.items())
    std::cout << fmt::format("{:<14} {}\n", key,
                             value.is_string() ? value.get<std::string>() : value.dump());
  return 0;
}

}  // namespace wmtp::cli
