// The process-wide logger: diagnostics on stderr, results go to stdout by other means. Messages are
// "[module] text" like errors.
#pragma once
#include <fmt/format.h>

#include <string_view>

namespace wmtp::log {

enum class Level { debug, info, warn, error };

struct Options {
  Level level = Level::info;
  bool json = false;  // one JSON object per line, for `--json` runs
  bool color = false;
  int rank = -1;  // >= 0: shown in every line
};

void configure(const Options& options);
Options current();
void write(Level level, std::string_view module, std::string_view text);

template <class... Args>
void debug(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, module, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, module, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warn, module, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(std::string_view module, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, module, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace wmtp::log
