// Behind core/log/log_file.h, without its lock: messages on their way to the file.
#pragma once
#include <string>
#include <vector>

#include "wmtp/core/log/log_file.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::log {

struct Line {
  Level level = Level::info;
  std::string time, module, text;  // text is escaped (core/printable.h)
};

class LineRecorder {
 public:
  // Both return why the file ends here, or nothing.
  std::string open(const FileOptions& options);
  std::string add(Line line);
  void close();

 private:
  enum class State { early, open, closed };

  std::string append(const std::string& text);
  std::string end(std::string_view why);
  std::string start_mark() const;
  std::string format(const Line& line) const;

  State state_ = State::early;
  std::vector<Line> early_;
  std::size_t num_early_lost_ = 0;
  FileOptions options_;
  UniqueFd file_;
};

}  // namespace wmtp::log
