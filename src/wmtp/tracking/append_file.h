// A file of JSON lines that only grows: one write() per line, so a reader never sees half of one
// unless the machine died, and then only as the last line. Opening such a file begins a new line.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "wmtp/core/json.h"
#include "wmtp/storage/open_file.h"

namespace wmtp::tracking {

class AppendFile {
 public:
  // Creates the file (private) where there is none; its folder must exist. A symbolic link is not
  // followed. Failures are ErrorKind::io.
  explicit AppendFile(std::filesystem::path path);

  // Appends the object as one line. A failed write is a warning, once, and counts as lost.
  void line(const OrderedJson& object);

  std::int64_t num_lost() const { return num_lost_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  bool ends_in_line_feed() const;
  bool write(std::string_view text);

  std::filesystem::path path_;
  UniqueFd file_;
  bool torn_ = false;  // the last line is unfinished
  std::int64_t num_lost_ = 0;
};

// JSON has no NaN and no infinities: these become the texts "NaN", "Infinity", "-Infinity".
OrderedJson json_number(double value);

}  // namespace wmtp::tracking
