// Each rule of the report on both sides of its threshold.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A run with curves of these values at the steps 1, 2, ...
struct Made : RunData {
  Made& with(const std::string& metric, const std::vector<double>& values,
             std::int64_t first_step = 1) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      series[metric].push_back({first_step + static_cast<std::int64_t>(i), values[i]});
      last_step = std::max(last_step, series[metric].back().step);
    }
    return *this;
  }
};

bool tells(const Look& look) {
  EXPECT_TRUE(look.has_numbers);
  if (look.evidence) {
    EXPECT_FALSE(look.evidence->fact.empty());
    EXPECT_FALSE(look.evidence->numbers.empty());
  }
  return look.evidence.has_value();
}

std::vector<double> often(std::size_t count, double value) {
  return std::vector<double>(count, value);
}

TEST(Findings, ARunWithoutNumbersIsNotJudged) {
  for (const Rule& rule : finding_rules()) {
    const Look look = rule.look(RunData{});
    EXPECT_FALSE(look.evidence) << rule.id;
    EXPECT_EQ(look.has_numbers, rule.id == "restarts-without-progress") << rule.id;
  }
}

TEST(Findings, DataWaitCountsAboveATenthAndTwoMilliseconds) {
  const auto look = [](double wait_ms, double step_ms) {
    return tells(
        look_at_data_wait(Made()
                              .with("perf/data_wait_ms", {900, wait_ms, wait_ms, wait_ms})
                              .with("perf/step_time_ms", {1000, step_ms, step_ms, step_ms})));
  };
  EXPECT_FALSE(look(10, 100));  // the first report, 90 %, does not count
  EXPECT_TRUE(look(10.1, 100));
  EXPECT_FALSE(look(2, 10));
  EXPECT_TRUE(look(2.1, 10));
}

TEST(Findings, CommunicationCountsAboveAQuarterOfAStep) {
  const auto look = [](double share) {
    return tells(look_at_comm_wait(Made().with("comm/wait_share", {0.9, share, share, share})));
  };
  EXPECT_FALSE(look(kCommWaitShare));
  EXPECT_TRUE(look(kCommWaitShare + 0.001));
}

TEST(Findings, AStragglerIsNamedWithTheWordsOfItsEvent) {
  Made run;
  run.with("perf/slowest_rank_speed", {0.9}, 30);
  EXPECT_FALSE(tells(look_at_stragglers(run)));
  run.with("perf/straggler_slowdown", {kStragglerSlowdown}, 30);
  EXPECT_FALSE(tells(look_at_stragglers(run)));
  run.with("perf/straggler_slowdown", {1.34}, 60).with("perf/straggler_rank", {3}, 60);
  run.events = {{60, "straggler", "rank 3 on node7 holds the others up"}};
  const Look look = look_at_stragglers(run);
  ASSERT_TRUE(tells(look));
  EXPECT_EQ(look.evidence->fact, "step 60: rank 3 on node7 holds the others up");
  EXPECT_EQ(look.evidence->numbers[1], (std::pair<std::string, double>("perf/straggler_rank", 3)));
}

TEST(Findings, SavesBlockAboveATwentiethOfTheTime) {
  const auto look = [](double blocked_s, double wall_time_s) {
    Made run;
    run.with("checkpoint/blocked_s", {blocked_s, blocked_s, 1000}).with("train/loss", {3, 2, 1});
    run.wall_time_s = wall_time_s;
    return tells(look_at_blocking_saves(run));
  };
  EXPECT_FALSE(look(2.5, 100));  // the save of the last step does not count
  EXPECT_TRUE(look(2.6, 100));
  EXPECT_FALSE(look(0.1, 1));
  EXPECT_TRUE(look(0.11, 1));
}

TEST(Findings, SavesAreLeftOutAboveOneInTen) {
  Made run;
  run.with("checkpoint/save_s", often(9, 1.0)).with("checkpoint/skipped_saves", {1});
  EXPECT_FALSE(tells(look_at_left_out_saves(run)));
  run.with("checkpoint/skipped_saves", {2}, 2);
  EXPECT_TRUE(tells(look_at_left_out_saves(run)));
}

TEST(Findings, OneFailedSaveIsTold) {
  Made run;
  run.with("checkpoint/save_s", {1});
  EXPECT_FALSE(tells(look_at_failed_saves(run)));
  EXPECT_TRUE(tells(look_at_failed_saves(run.with("checkpoint/failed_saves", {1}))));
}

TEST(Findings, TwoStartsThatBeginWhereTheOneBeforeDidAreTold) {
  const auto look = [](std::vector<std::int64_t> starts, std::optional<std::int64_t> done_at = {}) {
    RunData run;
    run.starts = std::move(starts);
    run.done_at = done_at;
    return tells(look_at_restarts(run));
  };
  EXPECT_FALSE(look({0}));
  EXPECT_FALSE(look({0, 10, 10, 20}));
  EXPECT_TRUE(look({0, 10, 10, 10}));
  EXPECT_TRUE(look({0, 0, 0}));
  EXPECT_FALSE(look({0, 60, 60, 60}, 60));  // it is done, and was started again
  RunData without_file;
  without_file.restarts = {5, 5, 5};
  EXPECT_TRUE(tells(look_at_restarts(without_file)));
}

TEST(Findings, BadStepsAreToldAboveOnePercentOrAtTheEnd) {
  const auto look = [](double skipped, double last_loss) {
    return tells(look_at_bad_steps(
        Made().with("train/skipped_steps", {skipped}, 100).with("train/loss", {last_loss}, 100)));
  };
  EXPECT_FALSE(look(1, 2.0));
  EXPECT_TRUE(look(2, 2.0));
  EXPECT_TRUE(look(0, kNan));
}

TEST(Findings, OneSpikeIsTold) {
  Made run;
  run.with("train/loss", often(20, 2.0));
  EXPECT_FALSE(tells(look_at_spikes(run)));
  EXPECT_FALSE(tells(look_at_spikes(Made().with("train/loss_spikes", {0}, 20))));
  run.with("train/loss_spikes", {1}, 20).with("train/loss_spike_z", {9}, 20);
  EXPECT_TRUE(tells(look_at_spikes(run)));
  EXPECT_FALSE(look_at_spikes(Made().with("train/loss", often(19, 2.0))).has_numbers);
}

TEST(Findings, ALossThatRisesByAQuarterIsTold) {
  const auto look = [](double first, double late) {
    std::vector<double> losses{first, first};
    for (const double value : often(11, 4.0)) losses.push_back(value);
    for (const double value : often(4, late)) losses.push_back(value);
    return tells(look_at_learning_rate(Made().with("train/loss", losses)));
  };
  EXPECT_FALSE(look(4, 5.0));
  EXPECT_TRUE(look(4, 5.01));
  EXPECT_TRUE(look(3, 4.01));  // it was ruined in the first steps
  EXPECT_FALSE(look_at_learning_rate(Made().with("train/loss", often(11, 4.0))).has_numbers);
  Made weighted;  // only the weights have grown
  weighted.with("train/unweighted_ce_loss", often(16, 4.0));
  weighted.with("train/loss", often(8, 4.0)).with("train/loss", often(8, 9.0), 9);
  EXPECT_FALSE(tells(look_at_learning_rate(weighted)));
}

TEST(Findings, ALossThatIsMerelyNoisyIsNotToldToRise) {
  const auto look = [](double low) {
    std::vector<double> losses;
    for (int i = 0; i < 16; ++i) losses.push_back(i % 2 ? 6 : low);
    losses.back() = losses[14] = 6;
    return tells(look_at_learning_rate(Made().with("train/loss", losses)));
  };
  EXPECT_FALSE(look(2));  // 6 is three times 2, and the noise is as large
}

TEST(Findings, GradientsThatAreCutToATenthMostOfTheTimeAreTold) {
  const auto look = [](std::size_t num_cut, double ratio) {
    std::vector<double> ratios = often(4, 0.01);  // the first quarter does not count
    for (std::size_t i = 0; i < 12; ++i) ratios.push_back(i < num_cut ? ratio : 1);
    return tells(look_at_gradient_clipping(Made().with("train/grad_clip_ratio", ratios)));
  };
  EXPECT_FALSE(look(6, 0.05));
  EXPECT_TRUE(look(7, 0.05));
  EXPECT_TRUE(look(12, 0.099));
  EXPECT_FALSE(look(12, 0.1));
}

TEST(Findings, AValidationLossWithinAThousandthOfTheFirstIsFlat) {
  const auto look = [](double best) {
    return tells(look_at_flat_loss(Made().with("val/loss", {2.0, 2.5, best})));
  };
  EXPECT_TRUE(look(1.9981));
  EXPECT_FALSE(look(1.9979));
  EXPECT_TRUE(look(2.0019));
  EXPECT_FALSE(look(2.0021));
}

TEST(Findings, AValidationLossThatRisesWhileTrainingFallsIsTold) {
  const auto look = [](double last, double late) {
    std::vector<double> losses = often(12, 2.0);
    for (const double value : often(4, late)) losses.push_back(value);
    return tells(look_at_rising_validation(
        Made().with("train/loss", losses).with("val/loss", {3.0, 2.0, last})));
  };
  EXPECT_FALSE(look(2.09, 1.0));
  EXPECT_TRUE(look(2.11, 1.0));
  EXPECT_FALSE(look(2.11, 2.0));
}

TEST(Findings, WeightsCollapseBelowAnEntropyOfFourFifths) {
  const auto look = [](double entropy) {
    return look_at_weight_entropy(Made().with("weight/entropy", {1, 1, 1, entropy}));
  };
  EXPECT_FALSE(tells(look(kCollapsedEntropy)));
  EXPECT_TRUE(tells(look(kCollapsedEntropy - 0.001)));
  Made selected;
  selected.stage = "rho1";
  EXPECT_FALSE(look_at_weight_entropy(selected.with("weight/entropy", often(4, 0.1))).has_numbers);
}

TEST(Findings, WeightsAreClippedAboveHalfOfTheTokens) {
  const auto look = [](double ratio) {
    return tells(look_at_weight_clipping(Made().with("weight/clipping_ratio", {0, 0, 0, ratio})));
  };
  EXPECT_FALSE(look(kWeightsClippedShare));
  EXPECT_TRUE(look(kWeightsClippedShare + 0.001));
}

TEST(Findings, ACriticOfFiftyFivePercentGuesses) {
  const auto look = [](double auc) {
    return tells(look_at_critic(
        Made().with("val/auc", {0.5, auc}, 0).with("val/pairwise_accuracy", {0.5, 0.9}, 0)));
  };
  EXPECT_TRUE(look(kChance));
  EXPECT_FALSE(look(kChance + 0.001));
  EXPECT_TRUE(tells(look_at_critic(Made().with("val/pairwise_accuracy", {0.5}, 4))));
  EXPECT_FALSE(look_at_critic(Made().with("val/auc", {0.5}, 0)).has_numbers);  // not trained yet
}

TEST(Findings, FewerThanATenthOfCorrectRowsAreFew) {
  const auto look = [](const char* right, const char* wrong) {
    RunData run;
    run.environment = {{"data.train.correct", right}, {"data.train.incorrect", wrong}};
    return tells(look_at_correct_rows(run));
  };
  EXPECT_FALSE(look("10", "90"));
  EXPECT_TRUE(look("9", "91"));
}

TEST(Findings, MoreThanATwentiethOfCutRowsIsTold) {
  const auto look = [](const char* cut, const char* how) {
    RunData run;
    run.environment = {{"data.train.truncated_rows.correct", cut},
                       {"data.train.truncated_rows.incorrect", "2"},
                       {"data.train.candidates", "90"},
                       {"data.train.rows_without_target", "10"}};
    run.config = {{"dataset.truncate", how}};
    const Look seen = look_at_truncation(run);
    return tells(seen) ? seen.evidence->fact : "";
  };
  EXPECT_EQ(look("3", "right"), "");
  EXPECT_EQ(look("4", "right"),
            "6 of 100 rows are longer than dataset.max_length: their answers lose their end");
  EXPECT_NE(look("4", "drop").find("left out"), std::string::npos);
}

}  // namespace
}  // namespace wmtp::tracking
