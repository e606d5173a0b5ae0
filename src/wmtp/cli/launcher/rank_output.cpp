#include "wmtp/cli/launcher/rank_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "wmtp/core/error.h"
#include "wmtp/core/log/log_file.h"
#include "wmtp/core/time.h"

namespace wmtp::cli {
namespace {

constexpr int kLauncherSource = 1 << 30;  // not a rank's

UniqueFd open_log(const std::filesystem::path& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    throw Error(ErrorKind::io, "launch",
                fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
                "choose another --log-dir");
  return fd;
}

void make_folder(const std::filesystem::path& path) {
  std::error_code status;
  const bool made = std::filesystem::create_directories(path, status);
  if (status)
    throw Error(ErrorKind::io, "launch",
                fmt::format("cannot create {}: {}", path.string(), status.message()),
                "choose another --log-dir");
  if (made) std::filesystem::permissions(path, std::filesystem::perms::owner_all, status);
}

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

bool are_one_device() {
  struct stat out {
  }, err{};
  return ::fstat(STDOUT_FILENO, &out) == 0 && ::fstat(STDERR_FILENO, &err) == 0 &&
         out.st_rdev == err.st_rdev;
}

}  // namespace

RankOutput::RankOutput(const LaunchOptions& options)
    : options_(options),
      out_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      err_is_terminal_(::isatty(STDERR_FILENO) == 1),
      one_terminal_(out_is_terminal_ && err_is_terminal_ && are_one_device()),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO) {
  if (options.log_dir.empty()) return;
  make_folder(options.log_dir);
  for (int rank = 0; rank < options.num_ranks; ++rank) {
    UniqueFd fd =
        open_log(options.log_dir / fmt::format("rank_{:05}.log", options.first_rank() + rank));
    auto console = std::make_unique<Console>(fd.get());
    logs_.push_back({std::move(fd), std::move(console)});
  }
}

LinePrefixer RankOutput::make_prefixer(int local_rank, bool is_stderr) {
  using Show = LinePrefixer::Show;
  const int rank = options_.first_rank() + local_rank;
  const bool bare_records = options_.json && !is_stderr;
  const bool bar = rank == 0 && (is_stderr ? err_is_terminal_ : out_is_terminal_);
  LinePrefixer::Route route;
  route.source = rank * 2 + (is_stderr ? 1 : 0);
  route.prefix = bar || bare_records ? "" : fmt::format("[rank {}] ", rank);
  route.console = is_stderr ? &err() : &out_;
  route.log = logs_.empty() ? nullptr : logs_[static_cast<std::size_t>(local_rank)].console.get();
  route.show = rank == 0 || options_.tee_all ? Show::everything
               : is_stderr                   ? Show::problems
                                             : Show::nothing;
  route.pass_through = bar;
  return LinePrefixer(std::move(route));
}

void RankOutput::notice(log::Level level, std::string_view text) {
  const log::Options settings = log::current();
  if (level < settings.level) return;
  std::string line;
  if (settings.json) {
    const std::string_view type = level == log::Level::warn    ? "warning"
                                  : level == log::Level::error ? "error"
                                                               : "log";
    nlohmann::ordered_json record{
        {"type", type}, {"ts", utc_timestamp()}, {"module", "launch"}, {"message", text}};
    line = record.dump() + "\n";
  } else {
    line = fmt::format("{} {} [launch] {}\n", clock_time(), log::name_of(level), text);
  }
  err().write(kLauncherSource, "", line);
  err().pump();
}

void RankOutput::mark_attempt(int restart_count) {
  if (restart_count == 0) return;
  const std::string line =
      fmt::format("==== restart {} at {} ====\n", restart_count, utc_timestamp());
  for (LogFile& log : logs_) log.console->write(kLauncherSource, "", line);
}

void RankOutput::pump() {
  out_.pump();
  err_.pump();
  for (std::size_t rank = 0; rank < logs_.size(); ++rank) {
    LogFile& log = logs_[rank];
    log.console->pump();
    if (!log.console->broken() || log.reported) continue;
    log.reported = true;
    notice(log::Level::warn,
           fmt::format("the log copy of rank {} ends here: {}",
                       options_.first_rank() + static_cast<int>(rank), std::strerror(errno)));
  }
}

}  // namespace wmtp::cli
