// Where the time of profiled steps went: what a run prints, keeps in profile/summary.json, and
// `wmtp report` shows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::tracking {

// What a run's folder has of it: this folder, and the file of the table in it.
inline constexpr const char* kProfileFolder = "profile";
std::filesystem::path profile_file(const std::filesystem::path& run_dir);

struct ProfileRow {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  bool operator==(const ProfileRow&) const = default;
};

struct ProfileSummary {
  std::int64_t first_step = 0, last_step = 0;
  int rank = 0, world = 1;  // whose times these are
  std::string device = {};  // "cpu", "cuda": where the operators ran
  double wall_s = 0;        // from the beginning of the first step to the end of the last
  double gap_s = 0;         // of it, in no operator
  double gemm_s = 0;        // of the operators: matrix products by themselves
  // What steps consist of, in their order, and what lies beside.
  std::vector<ProfileRow> phases = {};
  // By their own time, what they call within them left out; most first.
  std::vector<ProfileRow> operators = {};
  bool operator==(const ProfileSummary&) const = default;
};

OrderedJson to_json(const ProfileSummary& summary);
// Of <run>/profile/summary.json. ErrorKind::data with the file for what is damaged.
ProfileSummary read_profile(const std::filesystem::path& file);

std::string profile_title(const ProfileSummary& summary);  // one line
// Name, calls, time and share of the wall time; the largest operators, then the rest as one row,
// and gaps.
using ProfileCells = std::vector<std::vector<std::string>>;
ProfileCells phase_cells(const ProfileSummary& summary);
ProfileCells operator_cells(const ProfileSummary& summary);
std::vector<std::string> profile_header(const char* rows);  // of both
// Title and tables, lines that end in a line feed.
std::string profile_text(const ProfileSummary& summary, bool color = false);

}  // namespace wmtp::tracking
