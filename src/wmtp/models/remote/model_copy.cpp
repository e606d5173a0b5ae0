#include "wmtp/models/remote/model_copy.h"

#include <stdlib.h>  // mkdtemp

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>

#include "wmtp/core/error.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

// The largest tokenizer.json there is has 35 MB; what is larger is none of the files meant here.
constexpr std::uint64_t kMaxSmallBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxAdapterBytes = std::uint64_t{4} << 30;
constexpr std::array<std::string_view, 4> kDescriptions = {"config.json", "params.json",
                                                           "adapter_config.json", "tokenizer.json"};
constexpr std::array<std::string_view, 2> kSmallFolders = {"tokenizer", "configs"};

// A folder that goes with the process.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    path_ = (fs::temp_directory_path(error) / "wmtp-model-XXXXXX").string();
    if (error || !::mkdtemp(path_.data()))
      throw storage::FileError(error ? error.value() : errno, "create folder", fs::path(path_));
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

// An index counts as one of them: beside it the files would be looked for.
bool is_weights_file(const std::string& name) {
  if (name.ends_with(".index.json")) return true;
  const std::string ending = fs::path(name).extension().string();
  constexpr std::array<std::string_view, 9> kWeights = {
      ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".gz"};
  return std::ranges::find(kWeights, ending) != kWeights.end();
}

struct RemoteFolder {
  const storage::FileSystem& files;
  fs::path folder;
};

void copy_files(const RemoteFolder& from, const std::vector<storage::FolderEntry>& entries,
                const fs::path& to, bool with_weights) {
  for (const storage::FolderEntry& entry : entries) {
    if (entry.kind != storage::FileKind::file) continue;
    const bool is_weights = is_weights_file(entry.name);
    if (is_weights ? !with_weights
                   : from.files.status(from.folder / entry.name).bytes > kMaxSmallBytes)
      continue;
    storage::write_file_atomically(
        to / entry.name,
        storage::read_text(from.files, from.folder, entry.name, from.folder.string(),
                           is_weights ? kMaxAdapterBytes : kMaxSmallBytes));
  }
}

void copy_small(const RemoteFolder& from, const fs::path& to) {
  const auto entries = from.files.list(from.folder);
  const auto has = [&entries](std::string_view name, storage::FileKind kind) {
    return std::ranges::any_of(
        entries, [&](const auto& entry) { return entry.name == name && entry.kind == kind; });
  };
  const bool is_model = std::ranges::any_of(
      kDescriptions, [&](std::string_view name) { return has(name, storage::FileKind::file); });
  if (!is_model && !has("configs", storage::FileKind::folder) &&
      !has("tokenizer.model", storage::FileKind::file))
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{}: neither config.json nor params.json nor a tokenizer is there",
                            from.folder.string()),
                "is this a model folder?");
  const bool is_adapter = has("adapter_config.json", storage::FileKind::file) &&
                          !has("config.json", storage::FileKind::file);
  copy_files(from, entries, to, is_adapter);
  for (const std::string_view name : kSmallFolders)
    if (has(name, storage::FileKind::folder)) {
      const fs::path below = from.folder / name;
      storage::LocalFileSystem().create_folder(to / name);
      copy_files({from.files, below}, from.files.list(below), to / name, false);
    }
}

}  // namespace

fs::path locate(const std::string& name, const weights::Environment& environment) {
  return is_remote(name) ? plain_remote(name) : weights::locate_model(name, environment);
}

fs::path copy_small_files(const fs::path& remote) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<TemporaryFolder>> copies;
  const std::lock_guard lock(mutex);
  std::unique_ptr<TemporaryFolder>& kept = copies[remote.string()];
  if (!kept) {
    if (!is_folder(remote))
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("{} is {}", remote.string(),
                              is_there(remote) ? "one object" : "not there, or empty"),
                  "name the folder that a model is in, or copy a single file to a disk");
    auto made = std::make_unique<TemporaryFolder>();
    copy_small({*files_of(remote), remote}, made->path());
    kept = std::move(made);
  }
  return kept->path();
}

fs::path locate_tokenizer(const std::string& name, const weights::Environment& environment) {
  const fs::path path = locate(name, environment);
  return is_remote(path) ? copy_small_files(path) : path;
}

}  // namespace wmtp::models
