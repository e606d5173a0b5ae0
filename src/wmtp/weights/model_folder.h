// Model directories as other tools leave them: which file holds the configuration, which the
// weights. The folder is not interpreted: names are those of the files, and the configuration is
// the caller's to read (its format is told).
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/storage/file_system.h"
#include "wmtp/weights/torch_checkpoint.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::weights {

enum class ConfigFormat { none, hf_config, meta_params };

struct ModelFolder {
  std::filesystem::path folder;
  std::filesystem::path config_file;  // empty: there is none
  ConfigFormat config_format = ConfigFormat::none;
  std::filesystem::path tokenizer_folder;
  std::unique_ptr<WeightSource> weights;  // nullptr: a folder without weights
  bool meta_names = false;                // layers.N.attention.wq..., rows interleaved
  // Of a training checkpoint of the Python project given as a file: what it says of itself.
  std::optional<TorchCheckpoint> torch_checkpoint;
  // Of a folder in a bucket: where its weights are read in ranges (ranged/ranged_source.h).
  // `folder` is then a copy of its small files.
  std::shared_ptr<const storage::FileSystem> remote_files;
  std::filesystem::path remote_folder;
};

// Opens what is there, headers only: transformers' files (single before index before .bin), Meta's
// consolidated.pth, the Python project's layout, an exported checkpoint.pt, or one weights file by
// itself. REQUIRES an existing path. Errors: ErrorKind::config for what is not there or not
// supported, data for damaged or hostile files. Where the Python project left SHA256SUMS, the files
// listed there are read as a whole and held against it (sha256_sums.h).
ModelFolder open_model_folder(const std::filesystem::path& path);

// Looks for the configuration in folder.folder. Already done for folders; a weights file by itself
// has none until the caller says that what lies beside it describes it.
void find_config(ModelFolder& folder);

// Weights from the folder of a bucket, whose small files the opened one holds.
void use_remote_weights(ModelFolder& folder, std::shared_ptr<const storage::FileSystem> files,
                        const std::filesystem::path& remote);

// Adds the tensors of another safetensors file of the folder, named by its configuration (extra
// heads, value head).
void add_weights_file(ModelFolder& folder, std::string_view name);

using Environment = std::function<std::optional<std::string>(const std::string&)>;

// An existing path as it is; "org/name" as its newest snapshot in the local Hugging Face cache
// (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME). Otherwise Error config with the download command.
std::filesystem::path locate_model(const std::string& name, const Environment& environment);

}  // namespace wmtp::weights
