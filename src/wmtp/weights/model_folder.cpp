#include "wmtp/weights/model_folder.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/core/suggest.h"
#include "wmtp/weights/ranged/ranged_source.h"
#include "wmtp/weights/sha256_sums.h"
#include "wmtp/weights/torch_file.h"
#include "wmtp/weights/weight_index.h"

namespace wmtp::weights {
namespace {

namespace fs = std::filesystem;
using storage::Links;

storage::MappedFile map_beneath(const fs::path& folder, std::string_view name,
                                std::string_view origin) {
  return storage::MappedFile::map(
      storage::open_beneath(folder, name, origin, Links::allow_bare_name, ErrorKind::config),
      folder / name);
}

[[noreturn]] void refuse(ErrorKind kind, const fs::path& path, std::string_view fact,
                         std::string_view hint = {}) {
  throw Error(kind, "checkpoint", fmt::format("{}: {}", path.string(), fact), hint);
}

std::unique_ptr<WeightSource> open_indexed(const fs::path& folder, const std::string& index_name) {
  const fs::path index = folder / index_name;
  std::vector<SafetensorsSource::Part> parts;
  for (auto& [name, tensors] : read_weight_index(index)) {
    SafetensorsFile file(map_beneath(folder, name, index.string()));
    if (file.tensors().size() > tensors.size())
      log::warn("checkpoint", "{}: {} tensors are not in the index and are skipped",
                (folder / name).string(), file.tensors().size() - tensors.size());
    parts.push_back({std::move(file), std::move(tensors)});
  }
  return std::make_unique<SafetensorsSource>(std::move(parts));
}

std::unique_ptr<WeightSource> open_indexed_archives(const fs::path& folder,
                                                    const std::string& index_name) {
  const fs::path index = folder / index_name;
  std::vector<std::unique_ptr<WeightSource>> parts;
  for (const auto& [name, tensors] : read_weight_index(index)) {
    auto part = open_torch_file(map_beneath(folder, name, index.string()));
    for (const std::string& tensor : tensors)
      if (!part->find(tensor))
        refuse(ErrorKind::data, index,
               fmt::format("it places tensor {} in {}, which does not hold it", tensor, name));
    parts.push_back(std::move(part));
  }
  return join(std::move(parts));
}

std::unique_ptr<WeightSource> open_single(const fs::path& folder, std::string_view name) {
  return std::make_unique<SafetensorsSource>(
      SafetensorsFile(map_beneath(folder, name, folder.string())));
}

std::unique_ptr<WeightSource> open_python_layout(const fs::path& folder) {
  check_sha256_sums(folder);
  check_sha256_sums(folder / "safetensors");
  return open_single(folder / "safetensors", "model.safetensors");
}

std::unique_ptr<WeightSource> open_weights(const fs::path& folder) {
  auto has = [&](const char* name) { return fs::exists(folder / name); };
  if (has("model.safetensors")) {
    if (has("model.safetensors.index.json"))
      log::warn("checkpoint",
                "{}: model.safetensors and an index are both there; the single file is read",
                folder.string());
    return open_single(folder, "model.safetensors");
  }
  if (has("model.safetensors.index.json"))
    return open_indexed(folder, "model.safetensors.index.json");
  if (has("pytorch_model.bin"))
    return open_torch_file(map_beneath(folder, "pytorch_model.bin", folder.string()));
  if (has("pytorch_model.bin.index.json"))
    return open_indexed_archives(folder, "pytorch_model.bin.index.json");
  if (has("consolidated.01.pth"))
    refuse(ErrorKind::config, folder,
           "the weights are split into tensor-parallel pieces (consolidated.01.pth)",
           "convert them with transformers first");
  for (const char* name : {"consolidated.pth", "consolidated.00.pth"})
    if (has(name)) return open_torch_file(map_beneath(folder, name, folder.string()));
  if (has("safetensors/model.safetensors")) return open_python_layout(folder);
  if (has("checkpoint.pt"))
    return open_torch_file(map_beneath(folder, "checkpoint.pt", folder.string()));
  return nullptr;
}

ModelFolder open_weights_file(const fs::path& path) {
  ModelFolder model;
  model.folder = path.parent_path();
  if (path.extension() == ".safetensors")
    model.weights = std::make_unique<SafetensorsSource>(SafetensorsFile::open(path));
  else
    model.weights = open_torch_file(storage::MappedFile::open(path, ErrorKind::config),
                                    &model.torch_checkpoint);
  model.meta_names = model.weights->find("tok_embeddings.weight") != nullptr;
  return model;
}

bool is_hub_name(const std::string& name) {
  const auto slash = name.find('/');
  return slash != name.npos && slash > 0 && slash + 1 < name.size() &&
         name.find('/', slash + 1) == name.npos && name.front() != '.' && name.front() != '~' &&
         name.find("..") == name.npos;
}

fs::path hub_cache(const Environment& environment) {
  if (const auto cache = environment("HF_HUB_CACHE")) return *cache;
  if (const auto home = environment("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto cache = environment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface/hub";
  return fs::path(environment("HOME").value_or(".")) / ".cache/huggingface/hub";
}

// Where the Hugging Face cache has the main revision of org/name.
std::optional<fs::path> cached_snapshot(const std::string& name, const Environment& environment) {
  const auto slash = name.find('/');
  const fs::path repository =
      hub_cache(environment) /
      fmt::format("models--{}--{}", name.substr(0, slash), name.substr(slash + 1));
  const fs::path ref = repository / "refs/main";
  std::error_code ignored;
  if (!fs::exists(ref, ignored)) return std::nullopt;
  std::string revision = read_file(ref, 4096, ErrorKind::config);
  revision.erase(revision.find_last_not_of(" \r\n") + 1);
  storage::check_relative_name(revision, ref.string());
  const fs::path snapshot = repository / "snapshots" / revision;
  return fs::is_directory(snapshot, ignored) ? std::optional(snapshot) : std::nullopt;
}

}  // namespace

void find_config(ModelFolder& model) {
  constexpr std::pair<const char*, ConfigFormat> kHf[] = {
      {"config.json", ConfigFormat::hf_config}, {"configs/config.json", ConfigFormat::hf_config}};
  constexpr std::pair<const char*, ConfigFormat> kMeta[] = {
      {"params.json", ConfigFormat::meta_params},
      {"configs/params.json", ConfigFormat::meta_params}};
  auto search = [&](const auto& candidates) {
    for (const auto& [name, format] : candidates)
      if (model.config_file.empty() && fs::exists(model.folder / name)) {
        model.config_file = model.folder / name;
        model.config_format = format;
      }
  };
  if (model.meta_names) search(kMeta);
  search(kHf);
  search(kMeta);
}

ModelFolder open_model_folder(const fs::path& path) {
  if (!fs::exists(path)) refuse(ErrorKind::config, path, "there is no such file or folder");
  if (!fs::is_directory(path)) return open_weights_file(path);
  ModelFolder model;
  model.folder = path;
  model.weights = open_weights(path);
  model.meta_names = model.weights && model.weights->find("tok_embeddings.weight") != nullptr;
  find_config(model);
  model.tokenizer_folder = fs::is_directory(path / "tokenizer") ? path / "tokenizer" : path;
  if (!model.weights && model.config_file.empty())
    refuse(ErrorKind::config, path, "neither weights nor a config.json or params.json are there",
           "is this a model folder? such a one has config.json and model.safetensors; `hf download "
           "ORG/NAME` brings one into the cache");
  return model;
}

void add_weights_file(ModelFolder& folder, std::string_view name) {
  storage::check_relative_name(name, folder.config_file.string());
  std::vector<std::unique_ptr<WeightSource>> parts;
  parts.push_back(std::move(folder.weights));
  const std::string origin = folder.config_file.string();
  if (folder.remote_files)
    parts.push_back(open_ranged_file(*folder.remote_files, folder.remote_folder, name, origin));
  else
    parts.push_back(std::make_unique<SafetensorsSource>(
        SafetensorsFile(map_beneath(folder.folder, name, origin))));
  folder.weights = join(std::move(parts));
}

void use_remote_weights(ModelFolder& folder, std::shared_ptr<const storage::FileSystem> files,
                        const fs::path& remote) {
  folder.weights = open_ranged_weights(*files, remote);
  folder.remote_files = std::move(files);
  folder.remote_folder = remote;
}

fs::path locate_model(const std::string& name, const Environment& environment) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  const bool may_be_hub = is_hub_name(name);
  if (may_be_hub)
    if (const auto snapshot = cached_snapshot(name, environment)) return *snapshot;
  // A slip in a path can look like org/name; nothing can be downloaded for it.
  const std::string folder = name.substr(0, name.find('/'));
  const bool is_below = may_be_hub && fs::is_directory(folder, ignored);
  if (!may_be_hub || (!is_below && near_path(name)))
    throw Error(
        ErrorKind::config, "checkpoint", fmt::format("there is no file or folder {}", name),
        missing_path_hint(name) +
            (name.find('/') == name.npos ? "; a model of the Hugging Face cache is org/name" : ""));
  const std::string nearby = is_below            ? missing_path_hint(name)
                             : near_path(folder) ? missing_path_hint(folder)
                                                 : "";
  throw Error(ErrorKind::config, "checkpoint",
              fmt::format("{} is no folder here and not in the Hugging Face cache {}", name,
                          hub_cache(environment).string()),
              fmt::format("{}download it with: hf download {}",
                          nearby.empty() ? "" : nearby + " or, if it is on the hub, ", name));
}

}  // namespace wmtp::weights
