// Scalars for TensorBoard: an event file of length-framed, checksummed protobuf records. Each
// process begins a file of its own, so a resume does too.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "wmtp/storage/open_file.h"
#include "wmtp/tracking/sink.h"

namespace wmtp::tracking {

class TensorboardSink : public Sink {
 public:
  // Makes the folder where there is none. Failures are ErrorKind::io.
  TensorboardSink(const std::filesystem::path& folder, double start_time_s);

  void point(const Point& point) override;
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view data);

  std::filesystem::path path_;
  UniqueFd file_;
  bool broken_ = false;  // a torn record hides all that follows: no more are written
};

}  // namespace wmtp::tracking
