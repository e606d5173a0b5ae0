// The parts of finding_rules(), and what they share.
#pragma once
#include "wmtp/tracking/report/findings/rule.h"

namespace wmtp::tracking {

inline constexpr std::string_view kSlow = "slow", kUnstable = "unstable",
                                  kNotLearning = "not learning";
inline constexpr std::string_view kTroubles = "docs/troubleshooting.md", kStages = "docs/stages.md",
                                  kCheckpoints = "docs/checkpoints.md";

std::string percent_text(double share);  // "10 %"

std::vector<Rule> waiting_rules();
std::vector<Rule> save_rules();
std::vector<Rule> stability_rules();
std::vector<Rule> learning_rules();
std::vector<Rule> data_rules();

}  // namespace wmtp::tracking
