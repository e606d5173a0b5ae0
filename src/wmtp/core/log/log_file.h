// The log file of this process: a line per message with its time in UTC, whatever stderr shows.
// Until it is opened, or given up, the first messages are kept, so that the file has them too.
// Text: "2026-11-15T06:31:00.123Z info [module] text", each line of a longer message like that, so
// that no text can look like a line of its own. JSON: an object per message.
#pragma once
#include <filesystem>
#include <string_view>

#include "wmtp/core/log.h"

namespace wmtp::log {

inline constexpr std::size_t kMaxEarlyLines = 256;

struct FileOptions {
  std::filesystem::path path;  // its folder is made (0700) where it is missing
  Level level = Level::info;
  bool json = false;
  int rank = 0, world = 1, restart_count = 0;  // for the line that marks this start
};

// Appends to the file (0600) a line that marks this start, the messages so far and then each
// further one, in one write each. Never follows a link: Error io where something other than a
// regular file is in its place. What else goes wrong, now or later (a full disk, a file that was
// removed), is one warning on stderr, and the file ends there. BLOCKS for the disk.
void open_file(const FileOptions& options);
void close_file();  // there is none, now or later: nothing is kept

// Into the file alone: what reaches the user by other means. THREADS: any.
void write_to_file(Level level, std::string_view module, std::string_view text);

std::string_view name_of(Level level);  // debug, info, warning, error

}  // namespace wmtp::log
