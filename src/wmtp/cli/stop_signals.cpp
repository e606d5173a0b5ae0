#include "wmtp/cli/stop_signals.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/tracking/point.h"

namespace wmtp::cli {
namespace {

constexpr int kLeftUnsaved = 81;
constexpr std::int64_t kRepeatWindowMs = 2000;
constexpr double kMarginS = 60;                        // besides twice the time of a save
constexpr std::int64_t kLatestEndS = 253'402'300'799;  // the year 9999: later is another unit

// Of the process, since signals are.
std::atomic<std::int64_t> first_notice_ms{0};

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Schedulers repeat SIGTERM within milliseconds: the same notice. A person who presses Ctrl-C again
// means it.
extern "C" void note_stop(int signal) {
  const std::int64_t now = now_ms();
  std::int64_t none = 0;
  if (first_notice_ms.compare_exchange_strong(none, now)) return;
  if (signal != SIGINT && now - first_notice_ms.load() < kRepeatWindowMs) return;
  constexpr std::string_view kLine = "wmtp: a second signal: leaving at once, not saved (81)\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(kLeftUnsaved);
}

std::atomic<bool> save_noted{false};

extern "C" void note_save(int) {
  save_noted.store(true);
}

extern "C" void leave_unsaved(int) {
  ::_exit(kLeftUnsaved);
}

void install(void (*on_stop)(int)) {
  struct sigaction action {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  for (const int signal : stop_signals()) ::sigaction(signal, &action, nullptr);
  action.sa_handler = note_save;
  ::sigaction(SIGUSR2, &action, nullptr);
}

}  // namespace

std::span<const int> stop_signals() {
  static constexpr std::array kAll{SIGTERM, SIGUSR1, SIGINT, SIGHUP};
  struct sigaction hang_up {};
  const bool ignored = ::sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler == SIG_IGN;
  return std::span(kAll).first(ignored ? kAll.size() - 1 : kAll.size());
}

void leave_on_stop_signals() {
  install(leave_unsaved);
}

namespace {

double save_seconds(const run::RunProgress& progress) {
  return static_cast<double>(progress.save_ms) * 1e-3;
}

}  // namespace

TimeLimit::TimeLimit(const comm::EnvLookup& environment,
                     std::optional<std::int64_t> stop_before_end_s)
    : margin_s_(stop_before_end_s) {
  if (margin_s_ == 0) return;
  for (const char* name : {"WMTP_STOP_AT", "SLURM_JOB_END_TIME"}) {
    const std::optional<std::string> text = environment(name);
    if (!text || text->empty()) continue;
    std::int64_t end_s = 0;
    const char* const last = text->data() + text->size();
    const auto [end, status] = std::from_chars(text->data(), last, end_s);
    if (status != std::errc{} || end != last || end_s < 1 || end_s > kLatestEndS)
      throw Error(ErrorKind::config, "train",
                  fmt::format("{}={} is no time in seconds since 1970", name, *text),
                  "for example WMTP_STOP_AT=$(date -d '+2 hours' +%s), or leave it out; "
                  "runtime.stop_before_end_s: 0 knows no time limit");
    variable_ = name;
    end_s_ = end_s;
    return;
  }
}

double TimeLimit::margin_s(double save_s) const {
  return margin_s_ ? static_cast<double>(*margin_s_) : 2 * save_s + kMarginS;
}

std::optional<double> TimeLimit::stop_at_s(double save_s) const {
  if (!end_s_) return std::nullopt;
  return static_cast<double>(*end_s_) - margin_s(save_s);
}

std::chrono::milliseconds TimeLimit::left() const {
  if (!end_s_) return std::chrono::milliseconds(0);
  const double left_s = std::max(0.0, static_cast<double>(*end_s_) - tracking::wall_time_s());
  return std::chrono::milliseconds(static_cast<std::int64_t>(left_s * 1e3));
}

std::string TimeLimit::describe(double save_s) const {
  return fmt::format("{}={}, {:.0f} s before it", variable_, end_s_.value_or(0), margin_s(save_s));
}

StopSignals::StopSignals(std::filesystem::path stop_file, TimeLimit limit,
                         const run::RunProgress& progress)
    : stop_file_(std::move(stop_file)),
      limit_(std::move(limit)),
      progress_(progress),
      looked_(Clock::now()) {
  std::error_code ignored;
  if (!stop_file_.empty()) std::filesystem::remove(stop_file_, ignored);
  install(note_stop);
}

bool StopSignals::save_requested() {
  return save_noted.exchange(false);
}

bool StopSignals::is_too_late(bool tell) const {
  const double save_s = save_seconds(progress_);
  const auto at_s = limit_.stop_at_s(save_s);
  const double now_s = tracking::wall_time_s();
  if (!at_s || now_s < *at_s) return false;
  if (tell)
    log::warn("train", "the time limit passed {} ago ({}): nothing is begun, nothing is saved",
              format_duration(now_s - *at_s), limit_.describe(save_s));
  return true;
}

bool StopSignals::limit_reached() {
  const double save_s = save_seconds(progress_);
  const auto at_s = limit_.stop_at_s(save_s);
  if (!at_s || tracking::wall_time_s() < *at_s) return false;
  if (!std::exchange(limit_told_, true))
    log::info("train", "the time limit is reached ({}): stopping", limit_.describe(save_s));
  return true;
}

std::chrono::milliseconds StopSignals::grace(std::int64_t grace_s) const {
  const std::chrono::milliseconds asked(grace_s * 1000);
  return limit_told_ ? std::max(asked, limit_.left()) : asked;
}

bool StopSignals::requested() {
  if (first_notice_ms.load() != 0 || found_ || limit_reached()) return true;
  if (stop_file_.empty() || seconds_since(looked_) < 1) return false;
  looked_ = Clock::now();
  std::error_code ignored;
  found_ = std::filesystem::exists(stop_file_, ignored);
  if (found_) std::filesystem::remove(stop_file_, ignored);
  return found_;
}

}  // namespace wmtp::cli
