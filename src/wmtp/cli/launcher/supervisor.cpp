#include "wmtp/cli/launcher/supervisor.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "wmtp/cli/launcher/attempt.h"
#include "wmtp/cli/launcher/launch_notes.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/launcher/restart_policy.h"
#include "wmtp/cli/launcher/shared_folder.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

// False when a stop signal ended the pause.
bool pause(std::chrono::seconds length, SignalFd& signals, StopRequest& stop) {
  const Clock::time_point end = Clock::now() + length;
  while (!stop.since) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return true;
    pollfd item{signals.fd(), POLLIN, 0};
    ::poll(&item, 1, static_cast<int>(left) + 1);
    for (const int signal : signals.take())
      if (signal != SIGCHLD) stop.note(signal, Clock::now(), {});
  }
  return false;
}

}  // namespace

int supervise(const LaunchOptions& given) {
  clear_abandoned_folders();
  const PrivateFolder notes;
  LaunchOptions options = given;
  options.extra_environment.push_back(fmt::format("{}={}", kNotesVariable, notes.path().string()));
  if (!options.newest_committed_step)
    options.newest_committed_step = [&notes] { return newest_noted_step(notes.path()); };
  SignalFd signals;
  RankOutput output(options);
  StopRequest stop;
  RestartPolicy policy(options.max_restarts);
  const Pipe parent_pipe = make_pipe();
  // The launchers of several nodes cannot agree on a token: they are given one, or there is none.
  const bool alone = options.nodes.num_nodes == 1;
  const std::string run_token =
      alone ? make_run_token() : comm::process_environment()("WMTP_RUN_TOKEN").value_or("");
  for (int restart_count = 0;; ++restart_count) {
    const PrivateFolder folder;
    output.mark_attempt(restart_count);
    const int code =
        Attempt(options, output, signals, stop)
            .run(parent_pipe, restart_count, run_token,
                 alone ? "file://" + folder.path().string() : rendezvous_of(options.nodes));
    if (code == 0 || stop.since) return code;
    const auto wait = policy.next_pause(code, options.newest_committed_step());
    if (!wait) {
      if (is_retried(code))
        output.notice(log::Level::error,
                      fmt::format("giving up: {} of {} restarts used without progress",
                                  policy.used(), policy.max_restarts()));
      return code;
    }
    output.notice(log::Level::warn,
                  fmt::format("starting all ranks again in {} s (restart {} of {})", wait->count(),
                              policy.used(), policy.max_restarts()));
    if (!pause(*wait, signals, stop)) return static_cast<int>(ExitCode::preempted_unsaved);
  }
}

}  // namespace wmtp::cli
