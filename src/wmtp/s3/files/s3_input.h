// An object as a file that is read in ranges.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "wmtp/s3/files/connections.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::s3 {

// What the calls of S3 throw, as the errors of a file system: nothing there ENOENT, not allowed
// EACCES, replaced meanwhile ESTALE, no answer EIO; each with the server's words and the hint.
// Errors of the settings (keys, region, bucket) stay what they are. REQUIRES a caught exception.
[[noreturn]] void throw_as_file_error();

// THREADS: any.
class S3Input final : public storage::InputFile {
 public:
  // The object as `facts` has it: one of another ETag is an error of each read.
  S3Input(std::shared_ptr<Connections> connections, std::string key, ObjectFacts facts)
      : connections_(std::move(connections)), key_(std::move(key)), facts_(std::move(facts)) {}

  std::uint64_t size() const override { return facts_.bytes; }
  // Small reads take what lies behind them along: 1 MiB, and up to 4 MiB where they read on.
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

 private:
  void fetch(std::uint64_t offset, std::span<std::byte> out) const;

  std::shared_ptr<Connections> connections_;
  std::string key_;
  ObjectFacts facts_;
  mutable std::mutex mutex_;  // of the three below
  mutable std::vector<std::byte> ahead_;
  mutable std::uint64_t ahead_begin_ = 0;
  mutable std::size_t num_ahead_ = 0;  // bytes that were last asked for
};

}  // namespace wmtp::s3
