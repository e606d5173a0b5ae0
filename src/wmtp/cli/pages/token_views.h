// The numbers that a token of the score page can be coloured by: each is a view that one chooses.
#pragma once
#include <string>
#include <vector>

#include "wmtp/cli/pages/scored_rows.h"

namespace wmtp::cli::pages {

struct TokenView {
  enum class Kind { nll, weight, value };
  Kind kind = Kind::nll;
  std::size_t head = 0;
  std::string id;            // of its radio button, and of the CSS variable: "nll-1", "value"
  std::string label;         // "loss of head 1"
  double low = 0, high = 1;  // numbers at the two ends of the shade

  std::optional<float> number(const PageRow& row, std::size_t token) const;
  double shade(float number) const;  // 0 to 1
};

// Losses by head, then weights (by head where they differ), then values: those there are.
std::vector<TokenView> token_views(const ScoredRows& rows);

// Radio buttons, the scale of each view, and the rules by which the checked one colours what
// follows.
std::string choice_html(const std::vector<TokenView>& views);
std::string choice_style(const std::vector<TokenView>& views);

}  // namespace wmtp::cli::pages
