// The text of the progress display on a terminal: where the run is on one line, its numbers on at
// most two, none of them wider than the screen. What does not fit is left out, the least important
// first. A pure function of its input.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tracking/progress.h"

namespace wmtp::tracking {

struct BarState {
  std::string stage = {};
  Progress progress = {};
  std::optional<ValidationProgress> validating = {};  // where one is under way, its share is shown
  std::optional<double> eta_s = {};                   // to the end
  std::optional<double> next_save_eta_s = {};         // to the next checkpoint
  std::optional<std::int64_t> saved_step = {};
  double saved_age_s = 0;
};

struct BarStyle {
  std::size_t columns = 80;  // of the screen, at least 20
  bool color = false;
  bool unicode = false;  // solid bars instead of # and -
};

std::vector<std::string> bar_lines(const BarState& state, const BarStyle& style);

}  // namespace wmtp::tracking
