// The launcher's view of all ranks' output: two consoles, a log file per rank, a prefixer per
// stream.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "wmtp/cli/launcher/launch_console.h"
#include "wmtp/cli/launcher/launch_options.h"
#include "wmtp/cli/launcher/line_prefixer.h"
#include "wmtp/core/log.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {

class RankOutput {
 public:
  // Creates the log folder and files (0700, 0600); Error io if they cannot be.
  explicit RankOutput(const LaunchOptions& options);

  LinePrefixer make_prefixer(int local_rank, bool is_stderr);
  // A line of the launcher itself, on stderr, never inside another line.
  void notice(log::Level level, std::string_view text);
  void mark_attempt(int restart_count);  // a heading in every log file, from the second attempt on

  void pump();
  bool pending() const { return out_.pending() || err_.pending(); }
  Console& out() { return out_; }
  // Where both are one terminal, all goes through one console: nothing gets between the parts of a
  // line or a drawing.
  Console& err() { return one_terminal_ ? out_ : err_; }

 private:
  struct LogFile {
    UniqueFd fd;
    std::unique_ptr<Console> console;
    bool reported = false;
  };

  const LaunchOptions& options_;
  bool out_is_terminal_, err_is_terminal_, one_terminal_;
  Console out_, err_;
  std::vector<LogFile> logs_;
};

}  // namespace wmtp::cli
