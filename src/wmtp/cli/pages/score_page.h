// The page of `score`: what every token of a row costs the model, head by head.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wmtp/cli/pages/scored_rows.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::cli::pages {

struct ScorePage {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // of the model and its rows
  const tokenizer::Tokenizer* tokenizer = nullptr;  // BORROWED; null: tokens are shown as ids
};

// What colours the tokens, and in which order the rows stand, is chosen without scripts.
std::string to_html(const ScorePage& page, const ScoredRows& rows);

}  // namespace wmtp::cli::pages
