#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "wmtp/storage/file_system.h"
#include "wmtp/storage/local_output.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::storage {
namespace {

constexpr unsigned kFolderMode = 0700;

class LocalInput final : public InputFile {
 public:
  LocalInput(UniqueFd file, std::filesystem::path path)
      : path_(std::move(path)), file_(std::move(file)) {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) throw FileError(errno, "stat", path_);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw FileError(errno, "read", path_);
      if (got == 0) throw FileError(EIO, "read beyond the end of", path_);
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
  }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0;
};

FileKind kind_of(mode_t mode) {
  return S_ISREG(mode) ? FileKind::file : S_ISDIR(mode) ? FileKind::folder : FileKind::other;
}

}  // namespace

void LocalFileSystem::create_folder(const Path& folder) {
  if (::mkdir(folder.c_str(), kFolderMode) != 0) throw FileError(errno, "create folder", folder);
}

std::unique_ptr<OutputFile> LocalFileSystem::create_file(const Path& path) {
  return std::make_unique<LocalOutput>(path);
}

void LocalFileSystem::rename(const Path& from, const Path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw FileError(errno, "rename into place", to);
}

void LocalFileSystem::sync_folder(const Path& folder) {
  const UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle || ::fsync(handle.get()) != 0) throw FileError(errno, "fsync folder", folder);
}

void LocalFileSystem::remove_file(const Path& path) {
  if (::unlink(path.c_str()) != 0) throw FileError(errno, "remove", path);
}

void LocalFileSystem::remove_folder(const Path& folder) {
  if (::rmdir(folder.c_str()) != 0) throw FileError(errno, "remove folder", folder);
}

std::vector<FolderEntry> LocalFileSystem::list(const Path& folder) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(folder.c_str()), ::closedir);
  if (!handle) throw FileError(errno, "list", folder);
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(handle.get());
    if (!entry && errno != 0) throw FileError(errno, "list", folder);
    if (!entry) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const FileKind kind = status(folder / name).kind;
    if (kind != FileKind::missing) entries.push_back({name, kind});  // else: removed meanwhile
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

FileStatus LocalFileSystem::status(const Path& path) const {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throw FileError(errno, "stat", path);
  }
  return {kind_of(status.st_mode), static_cast<std::uint64_t>(status.st_size)};
}

std::uint64_t LocalFileSystem::free_bytes(const Path& folder) const {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0)
    throw FileError(errno, "ask for the free space of", folder);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::unique_ptr<InputFile> LocalFileSystem::open(const Path& folder, std::string_view name,
                                                 std::string_view origin) const {
  return std::make_unique<LocalInput>(open_beneath(folder, name, origin), folder / name);
}

}  // namespace wmtp::storage
