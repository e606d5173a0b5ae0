// The few file operations that durable writing needs, behind an interface: the local body here, and
// in tests a body that loses power at any call. Every call either does what it says or throws
// FileError with the system's error number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/error.h"

namespace wmtp::storage {

// ErrorKind::io: the storage failed, which says nothing about what the files hold.
class FileError : public Error {
 public:
  FileError(int code, std::string_view action, const std::filesystem::path& path);
  // Of storage that says itself what is wrong.
  struct Said {
    std::string_view fact, hint = {};
  };
  FileError(int code, const Said& said);
  int code() const { return code_; }  // errno

 private:
  int code_;
};

enum class FileKind : std::uint8_t { missing, file, folder, other };
struct FileStatus {
  FileKind kind = FileKind::missing;
  std::uint64_t bytes = 0;  // of a file
};
struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::missing;
};

// Destroying one without close() gives the file up: nothing is promised of its contents.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // A hint before the first write: about so many bytes will come.
  virtual void expect(std::uint64_t /*total_bytes*/) {}
  // All of them. After expect() a failure may be thrown by a later call, sync() or close() at last.
  virtual void write(std::span<const std::byte> bytes) = 0;
  // BLOCKS until the bytes are on the disk. Never repeat a failed one: the kernel may call lost
  // pages clean.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `out` from byte `offset`; a file that ends before is a FileError. THREADS: any.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

class FileSystem {
 public:
  using Path = std::filesystem::path;
  virtual ~FileSystem() = default;

  virtual void create_folder(const Path& folder) = 0;                     // it must not exist
  virtual std::unique_ptr<OutputFile> create_file(const Path& path) = 0;  // it must not exist
  virtual void rename(const Path& from, const Path& to) = 0;              // replaces a file
  virtual void sync_folder(const Path& folder) = 0;                       // BLOCKS
  virtual void remove_file(const Path& path) = 0;                         // a link: itself
  virtual void remove_folder(const Path& folder) = 0;                     // an empty one
  virtual std::vector<FolderEntry> list(const Path& folder) const = 0;    // sorted by name
  virtual FileStatus status(const Path& path) const = 0;                  // links: other
  virtual std::uint64_t free_bytes(const Path& folder) const = 0;         // for this user
  // `name`, given by `origin`, beneath `folder` without following links; tricks are
  // ErrorKind::data (check_relative_name).
  virtual std::unique_ptr<InputFile> open(const Path& folder, std::string_view name,
                                          std::string_view origin) const = 0;
};

class LocalFileSystem final : public FileSystem {
 public:
  void create_folder(const Path& folder) override;
  std::unique_ptr<OutputFile> create_file(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void sync_folder(const Path& folder) override;
  void remove_file(const Path& path) override;
  void remove_folder(const Path& folder) override;
  std::vector<FolderEntry> list(const Path& folder) const override;
  FileStatus status(const Path& path) const override;
  std::uint64_t free_bytes(const Path& folder) const override;
  std::unique_ptr<InputFile> open(const Path& folder, std::string_view name,
                                  std::string_view origin) const override;
};

// The whole of a file of at most `max_bytes` (beyond: ErrorKind::data).
std::string read_text(const FileSystem& files, const std::filesystem::path& folder,
                      std::string_view name, std::string_view origin, std::uint64_t max_bytes);
// Removes a file or a folder with all that is in it, at most `max_depth` folders deep. What is
// missing already is fine.
void remove_tree(FileSystem& files, const std::filesystem::path& path, int max_depth = 4);

}  // namespace wmtp::storage
