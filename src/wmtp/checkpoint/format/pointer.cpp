#include "wmtp/checkpoint/format/pointer.h"

#include <fmt/format.h>

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/format/names.h"

namespace wmtp::checkpoint {
namespace {

constexpr std::uint64_t kMaxPointerBytes = 4096;

}  // namespace

std::string_view name_of(Pointer pointer) {
  return pointer == Pointer::latest ? "latest" : pointer == Pointer::best ? "best" : "final";
}

std::string pointer_name(std::string_view model, Pointer pointer) {
  return fmt::format("{}-{}", model, name_of(pointer));
}

void write_pointer(storage::FileSystem& files, const std::filesystem::path& save_dir,
                   std::string_view model, Pointer pointer, std::string_view target) {
  const std::string name = pointer_name(model, pointer), line = fmt::format("{}\n", target);
  const std::filesystem::path draft = save_dir / hidden_name(name, "tmp", "pointer");
  storage::remove_tree(files, draft);  // of an attempt that was killed
  const auto file = files.create_file(draft);
  file->write(std::as_bytes(std::span(line.data(), line.size())));
  file->sync();
  file->close();
  guarded(failpoint::pass("save.pointer.rename"), save_dir / name,
          [&] { files.rename(draft, save_dir / name); });
  files.sync_folder(save_dir);
}

std::optional<std::string> read_pointer(const storage::FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        std::string_view model, Pointer pointer) {
  const std::string name = pointer_name(model, pointer);
  if (files.status(save_dir / name).kind == storage::FileKind::missing) return std::nullopt;
  std::string target = storage::read_text(files, save_dir, name, "it", kMaxPointerBytes);
  const bool whole = target.ends_with('\n');
  if (whole) target.pop_back();
  const auto parsed = parse_checkpoint_name(target);
  if (whole && parsed && parsed->model == model) return target;
  throw Error(ErrorKind::checkpoint, "checkpoint",
              fmt::format("{} names no checkpoint of {}", (save_dir / name).string(), model),
              "write the name of one and a line feed into it, or remove it");
}

}  // namespace wmtp::checkpoint
