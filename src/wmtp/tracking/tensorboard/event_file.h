// An event file of TensorBoard: records of a length, a message and their checksums.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "wmtp/core/unique_fd.h"

namespace wmtp::tracking::tensorboard {

class EventFile {
 public:
  // A new file `events.out.tfevents.<time>.<host>.<pid>.<n>`, for its owner alone, in `folder`,
  // which is made where there is none. Failures are ErrorKind::io.
  EventFile(const std::filesystem::path& folder, double start_time_s);

  // Appends a record. One that the disk does not take whole is taken back, as a torn record hides
  // all that follow, and is lost with a warning; those that follow are tried again.
  void write(std::string_view message);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::int64_t size_ = 0;  // of the whole records
  bool has_warned_ = false;
  bool broken_ = false;  // a torn record could not be taken back: nothing more is written
};

}  // namespace wmtp::tracking::tensorboard
