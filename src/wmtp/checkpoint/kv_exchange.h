// How the ranks of a save tell each other their parts and its outcome: a table of texts that all of
// them see, never a collective (those belong to the training thread).
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::checkpoint {

// Of one value. The longest is a rank's part of the manifest, some 250 bytes per tensor of model
// and optimizer: 0.3 MB for 7B on 2 ranks. c10d's TCP store hangs up on more than 8 MiB.
inline constexpr std::size_t kMaxVoteBytes = std::size_t{8} << 20;

class KvExchange {
 public:
  virtual ~KvExchange() = default;
  // Publishes `value` under `key`, which nobody has posted yet. Keys hold letters, digits, '.',
  // '-', '_' and '/'. Failures are ErrorKind::comm or io. REQUIRES at most kMaxVoteBytes.
  virtual void post(std::string_view key, std::string_view value) = 0;
  // BLOCKS until the key is there; nothing after `timeout`.
  virtual std::optional<std::string> wait(std::string_view key,
                                          std::chrono::milliseconds timeout) = 0;
  // Removes what was posted, if it was; nobody waits for it any more.
  virtual void forget(std::string_view key) = 0;
};

// Within one process: a single rank, or ranks that are threads. THREADS: any.
class LocalExchange final : public KvExchange {
 public:
  void post(std::string_view key, std::string_view value) override;
  std::optional<std::string> wait(std::string_view key, std::chrono::milliseconds timeout) override;
  void forget(std::string_view key) override;

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::map<std::string, std::string, std::less<>> values_;
};

// Over files of a folder that all processes see: written under another name, then renamed.
class FileExchange final : public KvExchange {
 public:
  explicit FileExchange(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void post(std::string_view key, std::string_view value) override;
  std::optional<std::string> wait(std::string_view key, std::chrono::milliseconds timeout) override;
  void forget(std::string_view key) override;

 private:
  std::filesystem::path folder_;
};

}  // namespace wmtp::checkpoint
