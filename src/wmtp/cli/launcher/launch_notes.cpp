#include "wmtp/cli/launcher/launch_notes.h"

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

constexpr const char* kFile = "checkpoints.json";

}  // namespace

void note_checkpoints(const std::filesystem::path& notes, const std::filesystem::path& save_dir,
                      const std::string& model) {
  const Json note{{"save_dir", std::filesystem::absolute(save_dir).string()}, {"model", model}};
  storage::write_file_atomically(notes / kFile, note.dump());
}

std::optional<std::int64_t> newest_noted_step(const std::filesystem::path& notes) {
  // Without a note, or with a folder that cannot be read, progress is not known: no error.
  try {
    const Json note = read_json(notes / kFile);
    const storage::LocalFileSystem files;
    const auto found = checkpoint::find_checkpoints(files, note.at("save_dir").get<std::string>(),
                                                    note.at("model").get<std::string>());
    return found.empty() ? std::nullopt : std::optional(found.front().step);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace wmtp::cli
