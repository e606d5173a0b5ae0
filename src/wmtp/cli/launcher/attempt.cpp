#include "wmtp/cli/launcher/attempt.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wmtp/cli/launcher/numa.h"
#include "wmtp/cli/launcher/rank_environment.h"
#include "wmtp/cli/stop_signals.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

// A rank's own children may keep its pipes open after it; they are not waited for longer than this.
constexpr std::chrono::seconds kOrphanOutputDelay{1};
constexpr std::chrono::seconds kStuckReaderDelay{2};
constexpr int kNotSaved = static_cast<int>(ExitCode::preempted_unsaved);

std::string describe(int code) {
  if (code <= 128) return fmt::format("ended with code {}", code);
  return fmt::format("died by signal {} ({})", code - 128, ::strsignal(code - 128));
}

bool is_stop_signal(int signal) {
  const std::span<const int> all = stop_signals();
  return std::find(all.begin(), all.end(), signal) != all.end();
}

}  // namespace

std::optional<Seconds> StopRequest::note(int signal, Clock::time_point now, Seconds grace) {
  if (signal == SIGUSR2) return std::nullopt;  // save and go on
  const bool term = signal == SIGTERM || signal == SIGHUP;
  const bool again = (signal == SIGINT && first_int) ||
                     (term && first_term && now - *first_term > std::chrono::seconds(2));
  if (signal == SIGINT && !first_int) first_int = now;
  if (term && !first_term) first_term = now;
  if (again) return Seconds(5);
  if (since) return std::nullopt;
  since = now;
  return grace;
}

Attempt::Attempt(const LaunchOptions& options, RankOutput& output, SignalFd& signals,
                 StopRequest& stop)
    : options_(options), output_(output), signals_(signals), stop_(stop) {}

void Attempt::start_rank(int rank, const Pipe& parent_pipe,
                         const std::vector<std::string>& environment) {
  ChildSpec spec{.program = options_.program,
                 .arguments = options_.arguments,
                 .environment = environment,
                 .parent_pipe = &parent_pipe,
                 .signal_mask = signals_.previous_mask(),
                 .bind = std::nullopt};
  const std::vector<NumaNode> nodes =
      options_.bind_numa ? usable_numa_nodes() : std::vector<NumaNode>{};
  if (!nodes.empty())
    spec.bind = nodes[node_of_rank(static_cast<std::size_t>(rank),
                                   static_cast<std::size_t>(options_.num_ranks), nodes.size())];
  ranks_.push_back({rank, ChildProcess(spec), output_.make_prefixer(rank, false),
                    output_.make_prefixer(rank, true)});
}

int Attempt::run(const Pipe& parent_pipe, int restart_count, const std::string& run_token,
                 const std::string& rendezvous) {
  RankEnv env{.local_world = options_.num_ranks,
              .node = options_.nodes.node,
              .num_nodes = options_.nodes.num_nodes,
              .restart_count = restart_count,
              .threads = std::max(num_allowed_cores() / options_.num_ranks, 1),
              .grace_s = options_.grace.count(),
              .tee_all = options_.tee_all,
              .run_token = run_token,
              .rendezvous = rendezvous};
  const std::vector<std::string> base = own_environment();
  for (env.local_rank = 0; env.local_rank < options_.num_ranks; ++env.local_rank) {
    env.on_terminal = env.local_rank == 0 && env.node == 0 && ::isatty(STDOUT_FILENO) == 1;
    start_rank(env.local_rank, parent_pipe,
               rank_environment(base, env, options_.extra_environment));
  }
  last_output_ = Clock::now();
  while (!finished(Clock::now())) {
    wait_for_event();
    const Clock::time_point now = Clock::now();
    on_signals(now);
    reap(now);
    read_output(now);
    enforce_deadline(now);
    output_.pump();
  }
  for (RankState& state : ranks_) {
    state.out.finish();
    state.err.finish();
  }
  for (Console* console : {&output_.out(), &output_.err()}) console->erase_drawing();
  output_.pump();
  return failed_code_.value_or(0);
}

bool Attempt::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& state) { return state.process.running(); });
}

bool Attempt::finished(Clock::time_point now) const {
  if (any_running()) return false;
  const bool any_open = std::any_of(ranks_.begin(), ranks_.end(), [](const RankState& state) {
    return state.process.out || state.process.err;
  });
  // A reader that has stopped reading may keep us here, but not against a stop signal.
  if (output_.pending() && !(stop_.since && now - *stop_.since > kStuckReaderDelay)) return false;
  return !any_open || now - last_output_ > kOrphanOutputDelay;
}

int Attempt::poll_timeout_ms(Clock::time_point now) const {
  Clock::time_point next = now + std::chrono::seconds(1);
  if (!killed_) next = std::min(next, kill_at_);
  for (const RankState& state : ranks_)
    next = std::min({next, state.out.partial_due(), state.err.partial_due()});
  const auto wait = duration_cast<milliseconds>(next - now).count() + 1;
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 1000));
}

void Attempt::wait_for_event() {
  std::vector<pollfd> items{{signals_.fd(), POLLIN, 0}};
  for (const RankState& state : ranks_) {
    if (state.process.out && !state.out.blocked())
      items.push_back({state.process.out.get(), POLLIN, 0});
    if (state.process.err && !state.err.blocked())
      items.push_back({state.process.err.get(), POLLIN, 0});
  }
  for (const Console* console : {&output_.out(), &output_.err()})
    if (console->pending()) items.push_back({console->fd(), POLLOUT, 0});
  ::poll(items.data(), items.size(), poll_timeout_ms(Clock::now()));
}

void Attempt::on_signals(Clock::time_point now) {
  for (const int signal : signals_.take()) {
    if (signal == SIGCHLD) continue;
    for (const RankState& state : ranks_) state.process.send(signal);
    const std::optional<Seconds> remaining = stop_.note(signal, now, options_.grace);
    if (!remaining) continue;
    output_.notice(log::Level::info, fmt::format("{}: passed on; ranks have {:.0f} s to leave",
                                                 ::strsignal(signal), remaining->count()));
    limit(*remaining, now);
  }
}

void Attempt::limit(Seconds remaining, Clock::time_point now) {
  kill_at_ = std::min(kill_at_, now + duration_cast<Clock::duration>(remaining));
}

void Attempt::reap(Clock::time_point now) {
  // Of ranks found dead together, one that only lost its peers (75) is not the cause.
  std::optional<std::pair<int, int>> cause;
  for (RankState& state : ranks_) {
    std::optional<int> code = state.process.poll_exit();
    if (!code || *code == 0) continue;
    // It had no handler yet, or has none: the stop that was passed on, not a crash.
    if (stop_.since && is_stop_signal(*code - 128)) code = kNotSaved;
    if (!cause || (cause->second == 75 && *code != 75)) cause = {state.rank, *code};
  }
  if (cause) note_failure(cause->first, cause->second, now);
}

void Attempt::note_failure(int rank, int code, Clock::time_point now) {
  // Whoever only lost its peers (75) may be found before the one that was lost.
  const bool real_cause = failed_code_ == 75 && code != 75 && !killed_;
  if (failed_code_ && !real_cause) return;
  failed_code_ = code;
  const bool saved_and_leaving = stop_.since && (code == 80 || code == 81);
  const bool others = any_running();
  output_.notice(code == 80 || saved_and_leaving ? log::Level::info : log::Level::error,
                 fmt::format("rank {} {}{}", options_.first_rank() + rank, describe(code),
                             others ? fmt::format("; the others have {} s to leave",
                                                  options_.peer_grace.count())
                                    : ""));
  // No SIGTERM: with a peer gone they could not agree on a save.
  if (others && !saved_and_leaving) limit(options_.peer_grace, now);
}

void Attempt::read_stream(UniqueFd& fd, LinePrefixer& prefixer, Clock::time_point now) {
  prefixer.flush_partial(now);
  if (!fd || prefixer.blocked()) return;
  pollfd item{fd.get(), POLLIN, 0};
  if (::poll(&item, 1, 0) != 1) return;
  std::array<char, 65536> bytes;
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  if (got > 0) {
    prefixer.feed({bytes.data(), static_cast<std::size_t>(got)}, now);
    last_output_ = now;
  } else if (got == 0 || errno != EINTR) {
    prefixer.finish();
    fd.reset();
  }
}

void Attempt::read_output(Clock::time_point now) {
  for (RankState& state : ranks_) {
    read_stream(state.process.out, state.out, now);
    read_stream(state.process.err, state.err, now);
  }
}

void Attempt::enforce_deadline(Clock::time_point now) {
  if (killed_ || now < kill_at_ || !any_running()) return;
  killed_ = true;
  output_.notice(log::Level::warn, "time is up: ending the remaining ranks with SIGKILL");
  for (const RankState& state : ranks_) state.process.kill_group();
}

}  // namespace wmtp::cli
