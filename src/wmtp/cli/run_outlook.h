// `wmtp validate` beyond the configuration's own rules: the files it names, and what the run would
// be.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/run/run_check.h"

namespace wmtp::cli {

// A problem as it is shown: "where: text".
struct ShownProblem {
  ErrorKind kind = ErrorKind::config;
  std::string where, text, hint;
  bool memory = false;  // the run is sound, but too large for this machine
};

struct CheckedRun {
  run::RunOutlook outlook;
  std::vector<ShownProblem> problems;
  int ranks = 1;
  std::int64_t accumulation = 1;
  std::string device;             // it was planned for; empty: no file was read
  std::int64_t memory_bytes = 0;  // that a rank has there; 0: not known

  std::string text(const config::Config& config) const;  // one line per fact that is known
  nlohmann::ordered_json fields() const;                 // the same, null for what is not known
};

// What check_run found, as it is shown; `stage_file` where no line of a file is known. The rest of
// the result is the caller's to fill in.
CheckedRun shown_check(const config::ResolvedConfig& resolved, const run::RunCheck& check,
                       int ranks, const std::string& stage_file);

// `ranks` on this machine. `read_files` false: --no-check-paths. The device is the configuration's;
// where it asks for a GPU, or for what there is, and there is none, a run that does not fit is no
// problem: such a machine often only validates. REQUIRES: before any other LibTorch call.
CheckedRun check_files(const config::ResolvedConfig& resolved, int ranks, bool read_files,
                       const std::string& stage_file);

}  // namespace wmtp::cli
