// What the section `logging` of a configuration asks of this process. Flags of the command line win
// over its keys.
#pragma once
#include <filesystem>

#include "wmtp/cli/command.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/config/config.h"
#include "wmtp/core/log.h"
#include "wmtp/run/checkpoints/train_state.h"

namespace wmtp::cli {

// -v: debug, -q: warn, neither: `otherwise`.
log::Level level_of_flags(const Session& session, log::Level otherwise);

// logging.level, format, console_ranks and color: the logger writes to stderr as they say from here
// on. Ranks that do not have the console write warnings and errors only (`wmtp launch --tee all`
// gives it to all). Returns the session with
// the colour that holds now.
Session apply_console_keys(const Session& session, const comm::LaunchEnv& launch,
                           const config::Logging& keys);

// logging.rank_files and dir. REQUIRES that the run folder is this run's. BLOCKS; Error io, as
// log::open_file.
void open_rank_file(const Session& session, const comm::LaunchEnv& launch,
                    const config::Logging& keys);

// A start that fails before it comes to the locks leaves its messages where no other run lives. One
// stands around all that may fail; it BORROWS both until then.
class EarlyRankFile {
 public:
  EarlyRankFile(const Session& session, const run::RunProgress& progress)
      : session_(session), progress_(progress) {}
  ~EarlyRankFile();
  EarlyRankFile(const EarlyRankFile&) = delete;
  EarlyRankFile& operator=(const EarlyRankFile&) = delete;

  // From here on it is known where. BORROWS `config`.
  void expect(const comm::LaunchEnv& launch, const config::Config& config);

 private:
  const Session& session_;
  const run::RunProgress& progress_;
  comm::LaunchEnv launch_;
  const config::Config* config_ = nullptr;
};

}  // namespace wmtp::cli
