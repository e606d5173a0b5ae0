#include "wmtp/storage/file_system.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace wmtp::storage {

FileError::FileError(int code, std::string_view action, const std::filesystem::path& path)
    : Error(ErrorKind::io, "storage",
            fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(code)),
            code == ENOSPC || code == EDQUOT  ? "make room, or save to another disk"
            : code == EROFS || code == EACCES ? "may you write there?"
                                              : ""),
      code_(code) {}

FileError::FileError(int code, const Said& said)
    : Error(ErrorKind::io, "storage", said.fact, said.hint), code_(code) {}

std::string read_text(const FileSystem& files, const std::filesystem::path& folder,
                      std::string_view name, std::string_view origin, std::uint64_t max_bytes) {
  const auto file = files.open(folder, name, origin);
  if (file->size() > max_bytes)
    throw Error(ErrorKind::data, "storage",
                fmt::format("{}: {} bytes, the limit is {}", (folder / name).string(), file->size(),
                            max_bytes));
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void remove_tree(FileSystem& files, const std::filesystem::path& path, int max_depth) {
  const FileKind kind = files.status(path).kind;
  if (kind == FileKind::missing) return;
  if (kind != FileKind::folder) return files.remove_file(path);
  if (max_depth == 0) throw FileError(ELOOP, "remove", path);
  for (const FolderEntry& entry : files.list(path))
    remove_tree(files, path / entry.name, max_depth - 1);
  files.remove_folder(path);
}

}  // namespace wmtp::storage
