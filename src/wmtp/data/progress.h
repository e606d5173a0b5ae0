// How far a long build is: share done, MB/s, rows, time left. On a terminal one line that is drawn
// over again, elsewhere a log line every few seconds.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "wmtp/core/time.h"

namespace wmtp::data {

class Progress {
 public:
  // `what` is done with `file` ("indexing"); `total_bytes` 0: unknown (compressed input).
  Progress(std::string what, std::filesystem::path file, std::uint64_t total_bytes)
      : what_(std::move(what)),
        file_(std::move(file)),
        total_bytes_(total_bytes),
        start_(Clock::now()),
        shown_(start_),
        told_(start_) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::uint64_t bytes_done, std::uint64_t new_rows);

 private:
  std::string what_;
  std::filesystem::path file_;
  std::uint64_t total_bytes_, num_rows_ = 0;
  Clock::time_point start_, shown_, told_;
};

}  // namespace wmtp::data
