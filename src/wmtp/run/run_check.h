// What a run would be, and what its files have against it, found without starting it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/config.h"
#include "wmtp/core/error.h"
#include "wmtp/models/trainable.h"
#include "wmtp/run/plan/run_context.h"

namespace wmtp::run {

struct InputProblem {
  ErrorKind kind = ErrorKind::config;
  std::string key;         // that names the file; empty: the fact is not one file's
  std::string fact, hint;  // as train says it; some facts begin with a key
  bool memory = false;     // the run is sound, but too large for this machine
};

// Nothing stands for what is not known.
struct RunOutlook {
  std::optional<std::uint64_t> steps, rows;  // rows: lines of the training files, blocks of text
  bool counted = false;                      // false: no file was read, steps are at most so many
  bool about = false;                        // both are estimates: the data is not indexed yet
  std::uint64_t tokens_per_step = 0;         // at most
  std::optional<models::TrainableParameters> trainable;
  std::optional<std::int64_t> memory_bytes;      // that a rank needs
  std::string memory_table;                      // of what; empty where it is not known
  std::optional<std::int64_t> checkpoint_bytes;  // of one with all its state, small files aside
  bool fits = true;  // false: not into the memory of a rank, whether that is a problem or not
};

struct RunCheck {
  RunOutlook outlook;
  std::vector<InputProblem> problems;  // as many as can be told at once
};

// Plans the run as `train` does (plan_model, RunData) and reads no more than headers, the
// tokenizer, the beginnings of data files, and indexes and caches that are there; writes nothing.
// A model that does not fit into context.memory_bytes is a problem unless `other_machine`: the run
// is meant for one with more memory. BLOCKS.
RunCheck check_run(const config::Config& config, const RunContext& context, bool other_machine);

// The same of what the configuration alone tells, without a look at any file.
RunCheck check_without_files(const config::Config& config, const RunContext& context);

}  // namespace wmtp::run
