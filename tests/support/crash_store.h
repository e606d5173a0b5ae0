// A file system in memory that loses power. Per file it remembers the bytes at the last fsync and
// the writes since; per folder the entries at the last fsync and the creations, renames and
// removals since. Same interface and conformance suite as storage::LocalFileSystem.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/storage/file_system.h"

namespace wmtp::test {

class CrashStore final : public storage::FileSystem {
 public:
  // Thrown by the call at which the power goes and by all after it. No std::exception: code under
  // test must not go on.
  struct PowerCut {};
  enum class Fail { once, always };

  CrashStore();
  CrashStore(const CrashStore& other);  // the files and what is unsynced, no armed faults
  CrashStore& operator=(const CrashStore&) = delete;

  // Counts calls that can fail, from 1 at each arming.
  int num_calls() const { return num_calls_; }
  void cut_at(int call);
  // The n-th call fails with `error`; a write first takes half of its bytes if `half` is set. A
  // failed fsync of a file loses what was unsynced.
  void fail(int call, int error, Fail mode, bool half = false);
  void disarm();

  // What a machine may find after the power came back: any unsynced write kept, dropped, reordered
  // or torn at 512 or 4096 bytes, a grown but unwritten tail as zeros, any unsynced entry kept or
  // dropped. What was synced survives.
  void power_loss(std::uint64_t seed);

  std::string& bytes(const Path& path);  // to damage a file; REQUIRES that it exists
  void set_free_bytes(std::uint64_t bytes) { free_bytes_ = bytes; }

  void create_folder(const Path& folder) override;
  std::unique_ptr<storage::OutputFile> create_file(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void sync_folder(const Path& folder) override;
  void remove_file(const Path& path) override;
  void remove_folder(const Path& folder) override;
  std::vector<storage::FolderEntry> list(const Path& folder) const override;
  storage::FileStatus status(const Path& path) const override;
  std::uint64_t free_bytes(const Path& folder) const override;
  std::unique_ptr<storage::InputFile> open(const Path& folder, std::string_view name,
                                           std::string_view origin) const override;

 private:
  class Output;
  class Input;
  using Entries = std::map<std::string, int>;  // name -> inode
  struct Write {
    std::size_t offset;
    std::string bytes;
  };
  struct EntryChange {  // from == "": created; to == "": removed
    std::string from, to;
    int inode;
  };
  struct Inode {
    bool folder = false;
    std::string bytes, durable_bytes;
    std::vector<Write> writes;
    Entries entries, durable_entries;
    std::vector<EntryChange> changes;
  };

  std::optional<int> find(const Path& path) const;
  int parent_of(const Path& path, std::string_view action) const;
  int folder_at(const Path& path, std::string_view action) const;
  int add(const Path& path, bool folder);
  void remove(const Path& path, bool folder);
  // The armed fault of this call, if any; throws PowerCut.
  std::optional<int> next_call() const;
  void call(std::string_view action, const Path& path) const;
  void write(int inode, std::span<const std::byte> bytes, const Path& path);
  void sync(int inode, const Path& path);

  mutable std::mutex mutex_;
  std::map<int, Inode> inodes_;
  int next_inode_ = 1;
  std::uint64_t free_bytes_ = std::uint64_t{1} << 40;
  mutable int num_calls_ = 0;
  int cut_at_ = 0, fail_at_ = 0, fail_error_ = 0;
  Fail fail_mode_ = Fail::once;
  bool fail_half_ = false;
};

}  // namespace wmtp::test
