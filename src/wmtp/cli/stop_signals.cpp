#include "wmtp/cli/stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string_view>
#include <system_error>

namespace wmtp::cli {
namespace {

constexpr int kLeftUnsaved = 81;
constexpr std::int64_t kRepeatWindowMs = 2000;

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

StopSignals::StopSignals(std::filesystem::path stop_file)
    : stop_file_(std::move(stop_file)), looked_(Clock::now()) {
  std::error_code ignored;
  if (!stop_file_.empty()) std::filesystem::remove(stop_file_, ignored);
  install(note_stop);
}

bool StopSignals::save_requested() {
  return save_noted.exchange(false);
}

bool StopSignals::requested() {
  if (first_notice_ms.load() != 0 || found_) return true;
  if (stop_file_.empty() || seconds_since(looked_) < 1) return false;
  looked_ = Clock::now();
  std::error_code ignored;
  found_ = std::filesystem::exists(stop_file_, ignored);
  if (found_) std::filesystem::remove(stop_file_, ignored);
  return found_;
}

}  // namespace wmtp::cli
