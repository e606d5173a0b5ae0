// `score`: its flags and output, shared by its two ways of working.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/models/scoring/score_lines.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {

struct ScoreFlags {
  ConfigFlags config;
  std::string model, checkpoint, base_model, adapter, data, device, dtype, out;
  int heads = 0;  // 0: all
  bool values = false, weights = false;
  std::int64_t step = 0;  // 0: not given
};

// stdout, or a file that appears under its name only when all is well.
class ScoreOutput {
 public:
  explicit ScoreOutput(const std::string& path);
  void write(std::string_view text);
  // The result's line, and what is told of it where the lines go to a file.
  void finish(const Session& session, const ScoreFlags& flags, const models::ScoreSummary& summary);

 private:
  std::optional<storage::AtomicFile> file_;
};

// The rows of a configuration by its stage (commands/score_stage.cpp). REQUIRES --config.
int score_stage(const Session& session, const ScoreFlags& flags);

}  // namespace wmtp::cli
