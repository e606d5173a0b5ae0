// What the trainer tells the console, and the texts the console makes of it. Absent numbers are
// left out of the text, never shown as 0.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "wmtp/core/json.h"
#include "wmtp/tracking/eta.h"
#include "wmtp/tracking/point.h"

namespace wmtp::tracking {

// One finished optimizer step. Rates are those since the last report (docs/stages.md, metrics).
struct Progress {
  std::int64_t step = 0, num_steps = 0;
  double epoch = 0, num_epochs = 0;
  double loss = 0;
  std::optional<double> unweighted_loss = {};
  double learning_rate = 0, grad_norm = 0;
  double samples_per_sec = 0, tokens_per_sec = 0;  // of all ranks together
  int num_ranks = 1;
  std::optional<double> mfu = {};
  std::optional<double> memory_used_gib = {}, memory_limit_gib = {};
  std::optional<double> data_wait_ratio = {};  // share of the step time, 0..1
  double step_time_s = 0;                      // of this step alone, without validation and saving
  RemainingWork remaining = {};                // from here to the end of the run
  std::optional<std::int64_t> next_save_step = {};
  std::optional<double> next_save_s = {};  // one that is due by the clock
};

struct Validation {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> perplexity = {};  // where the loss is a cross entropy
  NamedValues others = {};                // shown behind, e.g. {"pairwise_accuracy", 0.97}
  double seconds = 0;
};

// A validation that is under way.
struct ValidationProgress {
  std::int64_t step = 0;
  std::int64_t num_done = 0, num_batches = 0;  // of this rank; all ranks have as many
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string name = {};  // <model>-<step>steps
  double seconds = 0, blocked_s = 0;
};

struct Resumed {
  std::int64_t step = 0;
  std::string name = {};
  int saved_ranks = 1, num_ranks = 1;
};

// The lines of docs/config.md without line feed. `Loss:` is a contract: log watchers match it.
std::string step_line(const Progress& progress, std::optional<double> eta_s);
std::string validation_line(const Validation& validation);
std::string validating_line(const ValidationProgress& at);
std::string saving_line(std::int64_t step);
std::string saved_line(const SavedCheckpoint& saved);
std::string resumed_line(const Resumed& resumed);

// The same as objects for `--json`, without `ts`.
OrderedJson step_json(const Progress& progress, std::optional<double> eta_s);
OrderedJson validation_json(const Validation& validation);
OrderedJson saved_json(const SavedCheckpoint& saved);
OrderedJson resumed_json(const Resumed& resumed);

}  // namespace wmtp::tracking
