// What a communicator has started, in order: the last collective for the watchdog, and the recorded
// sequence whose comparison between ranks turns a divergence into an error instead of a hang.
// THREADS: all functions may be called from any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::comm {

struct LastCollective {
  std::uint64_t number = 0;  // 1 = first; 0 = none yet
  std::string what;          // "all_gather 4096 fp32 unit 3"
  bool finished = true;      // waited for by its caller
};

class CollectiveLog {
 public:
  static constexpr std::size_t kMaxRecorded = 4096;

  // Returns the collective's number.
  std::uint64_t start(std::string_view kind, std::int64_t num_elements, std::string_view dtype,
                      std::string_view label);
  void finish(std::uint64_t number);

  LastCollective last() const;
  // Everything started since the beginning (the first kMaxRecorded in words, all of it in the
  // hash).
  std::vector<std::string> recorded() const;
  std::uint64_t hash() const;
  void stop_recording();  // the words are dropped and no more are kept; the hash goes on

 private:
  mutable std::mutex mutex_;
  LastCollective last_;
  std::vector<std::string> recorded_;
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
  bool recording_ = true;
};

}  // namespace wmtp::comm
