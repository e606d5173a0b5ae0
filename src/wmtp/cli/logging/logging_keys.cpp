#include "wmtp/cli/logging/logging_keys.h"

#include <unistd.h>

#include <algorithm>

#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/run_folder.h"
#include "wmtp/core/log/log_file.h"
#include "wmtp/core/log_hook.h"

namespace wmtp::cli {
namespace {

log::Level level_of_key(config::LogLevel level) {
  switch (level) {
    case config::LogLevel::debug:
      return log::Level::debug;
    case config::LogLevel::info:
      return log::Level::info;
    case config::LogLevel::warn:
      return log::Level::warn;
    case config::LogLevel::error:
      return log::Level::error;
  }
  return log::Level::info;
}

bool has_console(const config::ConsoleRanks& keys, int rank) {
  return keys.all || std::find(keys.ranks.begin(), keys.ranks.end(), rank) != keys.ranks.end();
}

// Where several ranks may write to one console, those that were asked for say who they are;
// `wmtp launch` shows them for it.
bool says_its_rank(const config::ConsoleRanks& keys, const comm::LaunchEnv& launch) {
  const bool only_first = !keys.all && keys.ranks == std::vector<std::int64_t>{0};
  return launch.world > 1 && !only_first && has_console(keys, launch.rank);
}

}  // namespace

log::Level level_of_flags(const Session& session, log::Level otherwise) {
  if (session.quiet) return log::Level::warn;
  return session.verbose ? log::Level::debug : otherwise;
}

Session apply_console_keys(const Session& session, const comm::LaunchEnv& launch,
                           const config::Logging& keys) {
  Session result = session;
  if (result.color.empty()) result.color = config::name_of(keys.color);
  log::Options options;
  options.level = level_of_flags(session, level_of_key(keys.level));
  const bool all_shown = comm::process_environment()(kConsoleRanksVariable) == "all";
  if (!all_shown && !has_console(keys.console_ranks, launch.rank))
    options.level = std::max(options.level, log::Level::warn);
  options.json = session.json || keys.format == config::LogFormat::json;
  options.color = result.color_on(STDERR_FILENO);
  options.rank = says_its_rank(keys.console_ranks, launch) ? launch.rank : -1;
  log::configure(options);
  if (options.json) log::set_live_screen({});
  return result;
}

void open_rank_file(const Session& session, const comm::LaunchEnv& launch,
                    const config::Logging& keys) {
  if (!keys.rank_files) return log::close_file();
  const log::Level level = level_of_key(keys.level);
  const bool json = keys.format == config::LogFormat::json;
  log::open_file({.path = keys.dir / fmt::format("rank_{}.{}", launch.rank, json ? "jsonl" : "log"),
                  .level = session.verbose ? log::Level::debug : level,
                  .json = json,
                  .rank = launch.rank,
                  .world = launch.world,
                  .restart_count = launch.restart_count});
}

void EarlyRankFile::expect(const comm::LaunchEnv& launch, const config::Config& config) {
  launch_ = launch;
  config_ = &config;
}

EarlyRankFile::~EarlyRankFile() {
  if (!config_ || progress_.folder != run::FolderOwner::not_known) return;
  try {
    if (!is_folder_of_another(config_->runtime.run_dir))
      open_rank_file(session_, launch_, config_->logging);
  } catch (const std::exception&) {
    log::close_file();  // the failure on its way is the one to tell
  }
}

}  // namespace wmtp::cli
