#include "wmtp/core/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>

#include "wmtp/core/live_frame.h"
#include "wmtp/core/log/line_recorder.h"
#include "wmtp/core/log_hook.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/time.h"
#include "wmtp/core/utf8.h"

namespace wmtp::log {
namespace {

struct LogState {
  std::mutex mutex;
  Options options;
  std::shared_ptr<spdlog::logger> logger;
  std::function<void()> before_line;
  std::function<std::size_t()> live_columns;
  bool live_stands = false;
  LineRecorder recorder;
};

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(const Options& options) {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(
      options.color ? spdlog::color_mode::always : spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("wmtp", std::move(sink));
  logger->set_level(spdlog_level(options.level));
  logger->set_pattern(options.json ? "%v" : "%H:%M:%S %^%l%$ %v");
  logger->flush_on(spdlog::level::debug);
  return logger;
}

LogState& log_state() {
  static LogState instance{.mutex = {},
                           .options = {},
                           .logger = make_logger({}),
                           .before_line = {},
                           .live_columns = {},
                           .live_stands = false,
                           .recorder = {}};
  return instance;
}

void draw_live(std::string_view frame) {
  std::fwrite(frame.data(), 1, frame.size(), stderr);
  std::fflush(stderr);
}

// REQUIRES the lock.
void erase_live(LogState& s) {
  if (s.live_stands) draw_live(live_frame({}));
  s.live_stands = false;
}

// On stderr. REQUIRES the lock, and escaped text.
void show(LogState& s, Level level, std::string_view module, std::string_view text) {
  if (!s.logger->should_log(spdlog_level(level))) return;
  erase_live(s);
  if (s.before_line) s.before_line();
  if (!s.options.json) {
    const std::string rank = s.options.rank >= 0 ? fmt::format("rank {}: ", s.options.rank) : "";
    s.logger->log(spdlog_level(level), "[{}] {}{}", module, rank, text);
    return;
  }
  nlohmann::ordered_json line{{"type", level >= Level::error  ? "error"
                                       : level == Level::warn ? "warning"
                                                              : "log"},
                              {"ts", utc_timestamp()},
                              {"module", module},
                              {"message", text}};
  if (s.options.rank >= 0) line["rank"] = s.options.rank;
  s.logger->log(spdlog_level(level), "{}",
                line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// REQUIRES the lock.
void warn_of_file(LogState& s, const std::string& why_it_ends) {
  if (!why_it_ends.empty()) show(s, Level::warn, "log", printable(why_it_ends));
}

// REQUIRES the lock, and escaped text.
void record(LogState& s, Level level, std::string_view module, const std::string& text) {
  warn_of_file(s, s.recorder.add({level, utc_timestamp(), std::string(module), text}));
}

}  // namespace

void configure(const Options& options) {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  s.options = options;
  s.logger = make_logger(options);
}

Options current() {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  return s.options;
}

void before_each_line(std::function<void()> call) {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  s.before_line = std::move(call);
}

void set_live_screen(std::function<std::size_t()> columns) {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  erase_live(s);
  s.live_columns = std::move(columns);
}

bool show_live(std::string_view text) {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  if (!s.live_columns || !s.logger->should_log(spdlog::level::info)) return false;
  if (text.empty()) {
    erase_live(s);
    return true;
  }
  // The last column stays empty: some terminals wrap when it is written.
  const std::size_t columns = std::max<std::size_t>(s.live_columns(), 2) - 1;
  const std::string line(first_code_points(printable(text), columns));
  draw_live(live_frame(std::span(&line, 1)));
  s.live_stands = true;
  return true;
}

void write(Level level, std::string_view module, std::string_view message) {
  const std::string text = printable(message);
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  record(s, level, module, text);
  show(s, level, module, text);
}

void write_to_file(Level level, std::string_view module, std::string_view message) {
  const std::string text = printable(message);
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  record(s, level, module, text);
}

void open_file(const FileOptions& options) {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  warn_of_file(s, s.recorder.open(options));
}

void close_file() {
  LogState& s = log_state();
  const std::scoped_lock lock(s.mutex);
  s.recorder.close();
}

}  // namespace wmtp::log
