// A bucket as a file system that can only be read: what reads checkpoints from a disk reads them
// from S3 by this. Folders are what keys have before a "/"; an empty one does not exist.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "wmtp/s3/files/connections.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {

// Paths are s3://bucket/key. Errors as throw_as_file_error (s3_input.h) has them; calls that would
// write are FileError EROFS. THREADS: any.
class S3FileSystem final : public storage::FileSystem {
 public:
  // REQUIRES a session without a prefix.
  explicit S3FileSystem(std::shared_ptr<Session> session);

  void create_folder(const Path& folder) override;
  std::unique_ptr<storage::OutputFile> create_file(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void sync_folder(const Path& folder) override;
  void remove_file(const Path& path) override;
  void remove_folder(const Path& folder) override;
  std::uint64_t free_bytes(const Path& folder) const override;

  std::vector<storage::FolderEntry> list(const Path& folder) const override;
  // One request for a folder of at most 1000 entries and for all that lies in it: lists are kept
  // for some seconds. What was added meanwhile may be missing, what was removed may be there.
  storage::FileStatus status(const Path& path) const override;
  // The file is the object as it is now, whatever is put in its place later.
  std::unique_ptr<storage::InputFile> open(const Path& folder, std::string_view name,
                                           std::string_view origin) const override;

 private:
  struct Entry {
    storage::FileKind kind = storage::FileKind::missing;
    ObjectFacts facts = {};
  };
  struct Listing {
    std::map<std::string, Entry, std::less<>> entries;  // by name
    bool is_whole = true;  // false: more than one page, of which this is the first
    std::chrono::steady_clock::time_point read_at;
  };
  std::string key_of(const Path& path) const;
  Listing read_listing(const std::string& folder_key, bool all_pages) const;
  std::shared_ptr<const Listing> kept_listing(const std::string& folder_key) const;
  std::shared_ptr<const Listing> keep(const std::string& folder_key, Listing listing) const;
  Entry find(const std::string& key) const;
  Entry ask(const std::string& key) const;

  std::shared_ptr<Connections> connections_;
  mutable std::mutex mutex_;                                            // of the map
  mutable std::map<std::string, std::shared_ptr<const Listing>> kept_;  // by the folder's key
};

}  // namespace wmtp::s3
