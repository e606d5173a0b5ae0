// The steps of a save that touch the folder: its beginning, the texts, the rename.
#include <fmt/format.h>

#include <cerrno>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/log.h"

// Why in this order. All of this runs on the writer thread of rank 0; the other ranks wait for its
// votes, and no training thread waits for any of it unless it asked for a committed save. Every
// file is synced before the folders that name it, the manifest after everything it lists, the
// folders before the rename and save_dir after it. So the rename can only become durable for a
// folder that is whole: a power cut before it leaves a hidden folder that no reader looks at and
// that begin() of a later save, or the next start, removes; a cut after it leaves either that or
// the whole checkpoint, and the sync of save_dir ends the doubt. Only then is `committed_` set:
// where that last sync fails, the save has failed on all ranks, and a later save of the step writes
// it anew.
//
// A checkpoint of the same name (of a run that was rewound) is renamed aside first, durably, and
// removed last: at any cut one of the two is there under one of the two names, and clear_leftovers
// gives the old one its name back if the new one has not taken it. begin() clears leftovers before
// it asks for free space, because they may be what fills the disk.

namespace wmtp::checkpoint {
namespace {

using storage::FileKind;

constexpr std::uint64_t kSlackBytes = std::uint64_t{1} << 20;  // headers, manifest, texts

template <class PassHalf, class PassSync>
void write_text(storage::FileSystem& files, const std::filesystem::path& path,
                std::string_view text, PassHalf&& half, PassSync&& sync) {
  const auto file = files.create_file(path);
  write_halves(*file, std::as_bytes(std::span(text.data(), text.size())), path, half);
  guarded(sync(), path, [&] { file->sync(); });
  file->close();
}

constexpr failpoint::Action no_point() {
  return failpoint::Action::none;
}

FileRecord text_record(std::string_view name, std::string_view text) {
  FileRecord record;
  record.path = name;
  record.bytes = text.size();
  record.sha256 = sha256_hex(text);
  record.crc32c = crc32c(text);
  return record;
}

}  // namespace

void Saver::check_free_space(const SaveRequest& request) const {
  const std::uint64_t own = bytes_of(request.model) + bytes_of(request.optim);
  const int writers = request.num_writers > 0 ? request.num_writers : context_.world_size;
  const std::uint64_t need =
      own * static_cast<std::uint64_t>(writers) + kSlackBytes + request.trainer_state.size();
  if (const std::uint64_t free = context_.files.free_bytes(context_.save_dir); free < need)
    throw storage::FileError(ENOSPC, fmt::format("save {} bytes where {} are free:", need, free),
                             context_.save_dir);
}

// A checkpoint of that name: ours, another start's (to be replaced: the run was rewound), or a bad
// one, which makes room.
bool Saver::is_taken_by_us(const std::string& name) {
  const std::filesystem::path folder = context_.save_dir / name;
  if (context_.files.status(folder).kind == FileKind::missing) return false;
  try {
    CheckpointReader reader(context_.files, folder);
    reader.check_headers();
    return name == committed_;
  } catch (const DamageError& error) {
    const std::string aside = quarantine(context_.files, context_.save_dir, name);
    log::warn("checkpoint", "{}; set aside as {}", error.fact(), aside);
    return false;
  }
}

std::filesystem::path Saver::begin(const SaveRequest& request) {
  try {
    clear_leftovers(context_.files, context_.save_dir, context_.model);
  } catch (const Error& error) {  // leftovers do no harm; the next save removes them
    log::warn("checkpoint", "cannot clear what an earlier save left: {}", error.fact());
  }
  const std::string name = checkpoint_name(context_.model, request.step);
  if (is_taken_by_us(name)) return {};
  check_free_space(request);
  std::filesystem::path folder = context_.save_dir / hidden_name(name, "tmp", context_.run_id);
  for (int k = 1; context_.files.status(folder).kind != FileKind::missing; ++k)
    folder = context_.save_dir / hidden_name(name, "tmp", fmt::format("{}.{}", context_.run_id, k));
  context_.files.create_folder(folder);
  for (const Part part : {Part::model, Part::optim})
    context_.files.create_folder(folder / name_of(part));
  fail_if_asked(failpoint::pass("save.tmpdir.made"), folder);
  return folder;
}

void Saver::write_texts(const std::filesystem::path& folder, const SaveRequest& request,
                        Manifest& manifest) {
  write_text(
      context_.files, folder / kTrainerStateFile, request.trainer_state,
      [] { return failpoint::pass("save.state.half"); }, no_point);
  manifest.files.push_back(text_record(kTrainerStateFile, request.trainer_state));
  for (const TextFile& file : request.texts) {
    write_text(context_.files, folder / file.name, file.text, no_point, no_point);
    manifest.files.push_back(text_record(file.name, file.text));
  }
}

void Saver::write_manifest(const std::filesystem::path& folder, Manifest& manifest) {
  write_text(
      context_.files, folder / kManifestFile, to_text(manifest),
      [] { return failpoint::pass("save.manifest.half"); },
      [] { return failpoint::pass("save.manifest.fsync"); });
  for (const auto& part : {folder / name_of(Part::model), folder / name_of(Part::optim), folder})
    guarded(failpoint::pass("save.dirs.fsync"), part, [&] { context_.files.sync_folder(part); });
}

void Saver::publish(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path home = context_.save_dir / name;
  const std::filesystem::path aside = context_.save_dir / hidden_name(name, "old", context_.run_id);
  const bool replaces = context_.files.status(home).kind != FileKind::missing;
  if (replaces) {  // of a run that was rewound; durable, so that it can be brought back
    context_.files.rename(home, aside);
    context_.files.sync_folder(context_.save_dir);
  }
  try {
    guarded(failpoint::pass("save.rename.before"), home,
            [&] { context_.files.rename(folder, home); });
  } catch (const Error&) {
    if (replaces) context_.files.rename(aside, home);
    throw;
  }
  committed_.clear();
  fail_if_asked(failpoint::pass("save.rename.after"), home);
  guarded(failpoint::pass("save.parent.fsync"), home,
          [&] { context_.files.sync_folder(context_.save_dir); });
  committed_ = name;
  if (replaces) try {
      storage::remove_tree(context_.files, aside);
    } catch (const Error& error) {  // cleared by the next save
      log::warn("checkpoint", "cannot remove what {} replaced: {}", name, error.fact());
    }
}

}  // namespace wmtp::checkpoint
