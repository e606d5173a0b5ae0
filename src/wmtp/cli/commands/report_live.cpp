// `wmtp report --follow` and `--serve`: one thread that looks at the run folders, makes the page
// again when one has grown, and answers browsers in between.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <iostream>

#include "wmtp/cli/commands/report.h"
#include "wmtp/cli/launcher/signal_fd.h"
#include "wmtp/cli/stop_signals.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/http/page_server.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/page.h"
#include "wmtp/tracking/report/recorded/run_watch.h"

namespace wmtp::cli {
namespace {

constexpr std::chrono::milliseconds kLookEvery{1000};
constexpr int kRefreshSeconds = 10;
// Long runs take long to read: at most a tenth of the time goes into it.
constexpr int kPauseFactor = 10;

class LiveLoop {
 public:
  LiveLoop(const LiveReport& live, const Session& session) : live_(live), session_(session) {
    for (const std::string& folder : live.folders) {
      if (!std::filesystem::is_directory(folder)) read_runs({folder});  // throws: there is none
      watches_.emplace_back(folder);
    }
    if (!live.address) return;
    http::PageServerOptions options;
    options.address = *live.address;
    options.policy = tracking::kPagePolicy;
    server_.emplace(std::move(options));
    tell("serving", fmt::format("{} (Ctrl-C ends it)", server_->url()), {{"url", server_->url()}});
  }

  int run() {
    for (;;) {
      const Clock::time_point begun = Clock::now();
      look(begun);
      if (is_over_ && !server_) return 0;
      if (waits_for_signal(std::max(kLookEvery, kPauseFactor * spent_since(begun)))) return 0;
    }
  }

 private:
  static std::chrono::milliseconds spent_since(Clock::time_point begun) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  }

  void look(Clock::time_point now) {
    bool changed = false;
    for (tracking::RunWatch& watch : watches_) changed = watch.look(now) || changed;
    const bool was_over = is_over_;
    if (changed) read();
    is_over_ = has_ended(now);
    if (!changed && is_over_ == was_over) return;
    publish();
    if (is_over_ && !was_over)
      for (std::size_t i = 0; i < runs_.size(); ++i)
        tell("end",
             fmt::format("{}: {}", runs_[i].name,
                         runs_[i].has_ended() ? state_text(runs_[i]) : "gone without a last word"),
             {{"run", runs_[i].name}, {"state", state_text(runs_[i])}});
  }

  // What was read before stays where a folder cannot be read now.
  void read() {
    try {
      if (server_)
        for (const std::string& folder : live_.folders) tracking::require_own_files(folder);
      runs_ = read_runs(live_.folders);
      problem_.clear();
    } catch (const Error& error) {
      const bool all_ended = std::ranges::all_of(
          watches_, [](const tracking::RunWatch& watch) { return watch.has_last_word(); });
      if (runs_.empty() && all_ended) throw;
      if (problem_ != error.fact()) log::warn("report", "{}; goes on looking", error.fact());
      problem_ = error.fact();
    }
  }

  bool has_ended(Clock::time_point now) const {
    for (std::size_t i = 0; i < watches_.size(); ++i)
      if (!watches_[i].is_gone(now) && (runs_.empty() || !runs_[i].has_ended())) return false;
    return !runs_.empty();
  }

  void publish() {
    tracking::PageOptions options;
    if (!problem_.empty()) options.notices = {"This cannot be read now: " + problem_};
    if (!live_.out.empty() && !runs_.empty()) {
      storage::write_file_atomically(live_.out, tracking::report_page(runs_, options),
                                     storage::AtomicFile::kPublic);
      std::vector<std::int64_t> steps;
      for (const tracking::RunData& run : runs_) steps.push_back(run.last_step);
      tell("rewritten", fmt::format("{}: step {}", live_.out.string(), fmt::join(steps, ", ")),
           {{"out", live_.out.string()}, {"steps", steps}});
    }
    if (!server_) return;
    if (!is_over_) options.refresh_s = kRefreshSeconds;
    server_->set_page(runs_.empty() ? tracking::waiting_page(options.notices, kRefreshSeconds)
                                    : tracking::report_page(runs_, options));
  }

  bool waits_for_signal(std::chrono::milliseconds wait) {
    if (server_) {
      server_->serve(wait, signals_.fd());
    } else {
      pollfd watched{signals_.fd(), POLLIN, 0};
      ::poll(&watched, 1, static_cast<int>(wait.count()));
    }
    const auto stops = stop_signals();
    return std::ranges::any_of(signals_.take(), [&](int signal) {
      return std::ranges::find(stops, signal) != stops.end();
    });
  }

  void tell(std::string_view type, const std::string& line, const OrderedJson& fields) const {
    if (session_.json)
      emit_json(type, fields);
    else
      std::cout << printable(line) << std::endl;
  }

  const LiveReport& live_;
  const Session& session_;
  SignalFd signals_;
  std::vector<tracking::RunWatch> watches_;
  std::optional<http::PageServer> server_;
  std::vector<tracking::RunData> runs_;  // empty: nothing could be read yet
  std::string problem_;                  // why they are not the newest; "": they are
  bool is_over_ = false;
};

}  // namespace

int report_live(const LiveReport& live, const Session& session) {
  return LiveLoop(live, session).run();
}

}  // namespace wmtp::cli
