// The names of a checkpoint folder's things (docs/checkpoints.md).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::checkpoint {

inline constexpr std::string_view kManifestFile = "manifest.json";
// What retention renames the manifest to before it removes the rest: no checkpoint any more, and
// told apart from one that lost its manifest by accident.
inline constexpr std::string_view kDeletedManifest = "manifest.deleted";
inline constexpr std::string_view kTrainerStateFile = "trainer_state.json";

struct CheckpointName {
  std::string model;
  std::int64_t step = 0;
};

std::string checkpoint_name(std::string_view model, std::int64_t step);  // qwen3-100steps
// Nothing: not such a name (the number must be decimal, unpadded, below 2^63).
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// .<name>.<mark>-<tag>: being written (tmp), moved aside to be replaced (old). `name` is that of a
// checkpoint or of a pointer.
std::string hidden_name(std::string_view name, std::string_view mark, std::string_view tag);
struct HiddenName {
  std::string name, mark;
};
std::optional<HiddenName> parse_hidden_name(std::string_view entry);

enum class Part : std::uint8_t { model, optim };
std::string_view name_of(Part part);  // also the sub-folder
// shard-%05d-model-%05d-of-00003.safetensors; `kind` is that of layout::RowBox.
std::string shard_file_name(int rank, int kind);

// Model names and run ids become parts of file names: refuses (ErrorKind::config) what is empty,
// over 128 bytes, begins with a dot or holds anything but letters, digits, '.', '_', '-'.
void check_name_part(std::string_view text, std::string_view what);

}  // namespace wmtp::checkpoint
