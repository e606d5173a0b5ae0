// What a path that a user gives means among the things that a run leaves: one resolver for exports,
// --resume, and the commands that look at checkpoints.
//   a checkpoint's folder               <model>-<N>steps, or any folder with a manifest
//   a pointer file                      <model>-latest, -best, -final: the checkpoint it names
//   a folder of checkpoints, or a run's (which has them in `checkpoints`): the newest
// On a disk or in a bucket (s3://bucket/...), where errors of the storage are thrown too.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::models {

// A folder with a checkpoint's manifest.
bool is_checkpoint(const std::filesystem::path& path);

// The checkpoint that `path` means, of `model` where it names a folder of several (empty: of the
// only one). One that has lost its manifest counts if its name is a checkpoint's. Nothing: `path`
// is something else. Error config for a pointer to nothing, and for the checkpoints of several
// models.
std::optional<std::filesystem::path> resolve_checkpoint(const std::filesystem::path& path,
                                                        std::string_view model = {});

// What a path means as a model: resolve_checkpoint(), but of a run folder its `final` export unless
// the newest checkpoint is of a later step. Any other path stays as it is.
std::filesystem::path resolve_model_path(const std::filesystem::path& path);

// resolve_checkpoint() for --resume: Error config for what is no checkpoint of `model`, and for a
// copy under another name, with the step it holds.
std::filesystem::path checkpoint_to_resume(const std::filesystem::path& path,
                                           std::string_view model);

// The folder of checkpoints that `path` is or, of a run's folder, holds; that of a checkpoint or a
// pointer is the one it lies in. Error config where there is no folder.
std::filesystem::path checkpoints_folder(const std::filesystem::path& path);

// "a PEFT adapter", "a run's folder", ...: what there is where a checkpoint was asked for.
std::string describe_path(const std::filesystem::path& path);

}  // namespace wmtp::models
