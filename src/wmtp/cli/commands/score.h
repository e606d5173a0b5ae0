// `score`: its flags and output, shared by its two ways of working.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/cli/command.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/pages/score_page.h"
#include "wmtp/cli/pages/scored_rows.h"
#include "wmtp/models/scoring/score_lines.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {

struct ScoreFlags {
  ConfigFlags config;
  std::string model, checkpoint, base_model, adapter, data, device, dtype, out, html;
  std::size_t html_rows = 50;
  int heads = 0;  // 0: all
  bool values = false, weights = false;
  std::int64_t step = 0;  // 0: not given
};

// Where the lines go: stdout, a file, a page, or a file and a page. Files appear under their names
// only when all is well.
class ScoreOutput {
 public:
  explicit ScoreOutput(const ScoreFlags& flags);
  void write(std::string_view text);
  // The result's line and the page, and what is told of them where the lines do not go to stdout.
  // `page` has its title, its facts and its tokenizer.
  void finish(const Session& session, const models::ScoreSummary& summary,
              const pages::ScorePage& page);

 private:
  const ScoreFlags& flags_;
  std::optional<storage::AtomicFile> file_, html_;
  pages::ScoredRows rows_;
};

// The rows of a configuration by its stage (commands/score_stage.cpp). REQUIRES --config.
int score_stage(const Session& session, const ScoreFlags& flags);

}  // namespace wmtp::cli
