// The rules one by one, with their thresholds. Why each is where it is, and what people are told,
// stands in rule_table.cpp. All are pure.
#pragma once
#include "wmtp/tracking/report/findings/rule.h"

namespace wmtp::tracking {

// Means and medians of fewer reports than this say nothing.
inline constexpr std::size_t kLeastReports = 3;

// Slow.
inline constexpr double kDataWaitShare = 0.10;
inline constexpr double kDataWaitLeast_ms = 2;
Look look_at_data_wait(const RunData& run);

inline constexpr double kCommWaitShare = 0.25;
Look look_at_comm_wait(const RunData& run);

inline constexpr double kStragglerSlowdown = 4.0 / 3;
Look look_at_stragglers(const RunData& run);

inline constexpr double kSaveBlockedShare = 0.05;
inline constexpr double kSaveBlockedLeast_s = 0.1;
Look look_at_blocking_saves(const RunData& run);

inline constexpr double kLeftOutShare = 0.10;
Look look_at_left_out_saves(const RunData& run);

inline constexpr std::size_t kFailedSaves = 1;
Look look_at_failed_saves(const RunData& run);

inline constexpr std::size_t kVainStarts = 2;
Look look_at_restarts(const RunData& run);

// Unstable.
inline constexpr double kBadStepShare = 0.01;
Look look_at_bad_steps(const RunData& run);

inline constexpr double kSpikes = 1;
Look look_at_spikes(const RunData& run);

inline constexpr double kLossRise = 1.25;
inline constexpr double kLossRiseNoise = 2;
inline constexpr std::size_t kLeastLosses = 12;
Look look_at_learning_rate(const RunData& run);

inline constexpr double kClippedBelow = 0.1;
inline constexpr double kClippedShare = 0.5;
Look look_at_gradient_clipping(const RunData& run);

// Not learning.
inline constexpr std::size_t kLeastValidations = 3;
inline constexpr double kFlatLoss = 0.001;
Look look_at_flat_loss(const RunData& run);

inline constexpr double kValidationRise = 1.05;
Look look_at_rising_validation(const RunData& run);

inline constexpr double kCollapsedEntropy = 0.8;
Look look_at_weight_entropy(const RunData& run);

inline constexpr double kWeightsClippedShare = 0.5;
Look look_at_weight_clipping(const RunData& run);

inline constexpr double kChance = 0.55;
Look look_at_critic(const RunData& run);

inline constexpr double kCorrectShare = 0.10;
Look look_at_correct_rows(const RunData& run);

inline constexpr double kTruncatedShare = 0.05;
Look look_at_truncation(const RunData& run);

}  // namespace wmtp::tracking
