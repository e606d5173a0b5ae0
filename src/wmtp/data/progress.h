// One log line every few seconds of a long build: share done, MB/s, rows, time left.
#pragma once
#include <cstdint>
#include <string>

#include "wmtp/core/time.h"

namespace wmtp::data {

class Progress {
 public:
  // `total_bytes` 0: unknown (compressed input).
  Progress(std::string what, std::uint64_t total_bytes)
      : what_(std::move(what)), total_bytes_(total_bytes), start_(Clock::now()), shown_(start_) {}
  void advance(std::uint64_t bytes_done, std::uint64_t new_rows);

 private:
  std::string what_;
  std::uint64_t total_bytes_, num_rows_ = 0;
  Clock::time_point start_, shown_;
};

}  // namespace wmtp::data
