// <run_dir>/restarts.jsonl: a line for every start of a run that came to training, for people and
// scripts. The list that ends restart storms is another (restart_guard.h).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp::checkpoint {

struct StartLine {
  std::string job;  // the launcher's id; empty: none
  int restart_count = 0;
  std::string source;  // who started the ranks
  int world = 1;
  std::optional<std::int64_t> resumed_step;  // nothing: begun anew
};

// BLOCKS. Never throws: a line that cannot be written is a warning.
void append_start(const std::filesystem::path& run_dir, const StartLine& start) noexcept;

}  // namespace wmtp::checkpoint
