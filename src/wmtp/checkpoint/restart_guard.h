// Restart storms: <save_dir>/<model>.starts lists the starts of a run that have not committed a
// step. Launchers and schedulers start a dying run again and again; the list ends that, whoever it
// is that restarts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/checkpoint/run_lock.h"

namespace wmtp::checkpoint {

inline constexpr std::size_t kMaxFruitlessStarts = 3;

struct StartRequest {
  std::filesystem::path save_dir;
  std::string model;
  LockHolder me;       // this start
  std::string config;  // hash of the configuration: another one restarts the count
  std::optional<std::int64_t> newest_step;  // committed so far
};

std::filesystem::path start_record_path(const std::filesystem::path& save_dir,
                                        std::string_view model);

// BLOCKS. Adds this start to the list, which is emptied when a step was committed since its last
// one. Error internal, and nothing written, where kMaxFruitlessStarts are on it already. A list
// that cannot be read counts as empty, one that cannot be written is left as it is, each with a
// warning. REQUIRES the run's lock.
void record_start(const StartRequest& request);

// A step was committed, or the run has ended in order: the list goes. Never throws.
void forget_starts(const std::filesystem::path& save_dir, std::string_view model) noexcept;

// This start ended by an error that no restart repeats: it is taken off the list. Never throws.
void forget_start(const std::filesystem::path& save_dir, std::string_view model,
                  std::string_view run_id) noexcept;

}  // namespace wmtp::checkpoint
