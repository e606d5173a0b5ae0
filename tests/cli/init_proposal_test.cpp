#include "wmtp/cli/init/proposal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/expect_error.h"
#include "wmtp/cli/init/offers.h"

namespace wmtp::cli {
namespace {

using config::PromptTemplate;
using config::Stage;
using data::Format;
using data::Survey;
using ::testing::HasSubstr;

InitInputs rows_of(Stage stage, std::uint64_t num_correct, std::uint64_t num_incorrect) {
  InitInputs inputs;
  inputs.stage = stage;
  inputs.name = "run";
  inputs.model = {"models/llama", "", "", false, "the model has weights.", 1024, false};
  inputs.train = {"train.jsonl"};
  Survey& survey = inputs.survey;
  survey.format = Format::instruct;
  survey.num_rows = survey.num_rewards = num_correct + num_incorrect;
  survey.about_size = survey.num_rows;
  survey.num_correct = num_correct;
  survey.lengths.assign(survey.num_rows, 100);
  return inputs;
}

config::CommentedKey key_of(const InitInputs& inputs, const std::string& name) {
  for (const config::CommentedKey& one : proposed_keys(inputs, proposed_batch(inputs, 128)))
    if (one.key == name) return one;
  return {name, "left out", ""};
}

TEST(InitLength, HoldsTheNinetyNinthPercentileInStepsOf64) {
  Survey survey = rows_of(Stage::baseline, 200, 0).survey;
  std::iota(survey.lengths.begin(), survey.lengths.end(), 188);  // 188 .. 387, 198th: 385
  const LengthChoice choice = proposed_length(survey, 1024);
  EXPECT_EQ(choice.max_length, 448);
  EXPECT_EQ(choice.fact, "99 % of 200 rows have at most 385 tokens; none would be cut.");
  std::iota(survey.lengths.begin(), survey.lengths.end(), 187);
  const LengthChoice exact = proposed_length(survey, 1024);
  EXPECT_EQ(exact.max_length, 384);
  EXPECT_THAT(exact.fact, HasSubstr("at most 384 tokens; 2 rows would be cut."));
}

TEST(InitLength, EndsAtTheModelsPositions) {
  Survey survey = rows_of(Stage::baseline, 50, 0).survey;
  survey.lengths.assign(50, 5000);
  const LengthChoice choice = proposed_length(survey, 1000);
  EXPECT_EQ(choice.max_length, 1000);
  EXPECT_THAT(choice.fact, HasSubstr("the model has 1000 positions; 50 rows would be cut."));
}

TEST(InitLength, BlocksOfTextLeaveAHundred) {
  Survey survey;
  survey.format = Format::text;
  survey.about_size = 1'000'000;
  EXPECT_EQ(proposed_length(survey, 40960).max_length, 2048);
  survey.about_size = 100'000;
  EXPECT_EQ(proposed_length(survey, 40960).max_length, 512) << "97 blocks of 1024 are few";
  survey.about_size = 10;
  EXPECT_EQ(proposed_length(survey, 40960).max_length, 64);
}

TEST(InitTemplate, FollowsTheTokenizerAndTheForm) {
  EXPECT_EQ(proposed_template(Format::instruct, true), PromptTemplate::chatml);
  EXPECT_EQ(proposed_template(Format::instruct, false), PromptTemplate::alpaca);
  EXPECT_EQ(proposed_template(Format::text, true), PromptTemplate::raw);
}

TEST(InitBatch, IsModestInTokensAndLeavesTenSteps) {
  const InitInputs many = rows_of(Stage::baseline, 1000, 0);
  const auto shape = [](const BatchChoice& choice) {
    return std::pair(choice.batch_size, choice.accumulation);
  };
  EXPECT_EQ(shape(proposed_batch(many, 128)), std::pair(8L, 2L));
  EXPECT_EQ(shape(proposed_batch(many, 8192)), std::pair(2L, 8L));
  EXPECT_EQ(shape(proposed_batch(many, 100000)), std::pair(1L, 16L));
  EXPECT_EQ(shape(proposed_batch(rows_of(Stage::baseline, 100, 0), 128)), std::pair(8L, 1L));
  EXPECT_EQ(shape(proposed_batch(rows_of(Stage::baseline, 100, 900), 128)), std::pair(8L, 1L))
      << "correct rows only";
  EXPECT_EQ(shape(proposed_batch(rows_of(Stage::baseline, 1, 0), 128)), std::pair(1L, 1L));
}

TEST(InitSampling, TakesTheClassesThatAStageLearnsFrom) {
  EXPECT_EQ(key_of(rows_of(Stage::baseline, 10, 5), "data_sampling.correct_ratio").value, 1.0);
  EXPECT_EQ(key_of(rows_of(Stage::rho1, 10, 5), "data_sampling.correct_ratio").value, 1.0);
  EXPECT_EQ(key_of(rows_of(Stage::verifiable, 10, 5), "data_sampling.correct_ratio").value, 0.5);
  EXPECT_EQ(key_of(rows_of(Stage::critic, 10, 5), "data_sampling.balance_correct").fact,
            "10 correct and 5 incorrect in 15 rows.");
  EXPECT_EQ(key_of(rows_of(Stage::baseline, 10, 0), "data_sampling.balance_correct").value, false);
  InitInputs some = rows_of(Stage::baseline, 10, 5);
  some.survey.num_rewards = 12, some.survey.num_correct = 7;
  EXPECT_EQ(key_of(some, "data_sampling.balance_correct").fact,
            "12 of 15 rows have is_correct, all would have to.");
}

TEST(InitSampling, PairsAreForACriticAlone) {
  InitInputs inputs = rows_of(Stage::critic, 10, 5);
  inputs.survey.num_pairs = 5;
  EXPECT_EQ(key_of(inputs, "data_sampling.use_pairwise").value, true);
  EXPECT_EQ(key_of(inputs, "data_sampling.balance_correct").value, "left out");
  inputs.stage = Stage::verifiable;
  EXPECT_EQ(key_of(inputs, "data_sampling.use_pairwise").value, "left out");
}

TEST(InitSampling, FewBadLinesAreSkippedByName) {
  InitInputs inputs = rows_of(Stage::baseline, 99, 0);
  inputs.survey.num_bad = 1;
  inputs.survey.first_bad = "train.jsonl:7:1: invalid JSON";
  require_suitable_data(inputs);
  EXPECT_EQ(key_of(inputs, "dataset.on_bad_line").fact,
            "1 bad line beside 99 rows, the first: train.jsonl:7:1: invalid JSON");
  EXPECT_EQ(key_of(inputs, "dataset.max_bad_fraction").value, 0.02);
  inputs.survey.num_bad = 20;
  EXPECT_WMTP_ERROR(require_suitable_data(inputs), ErrorKind::data, "20 of 119 lines are bad");
}

TEST(InitRefusals, NameWhatAStageLacks) {
  InitInputs text = rows_of(Stage::critic, 10, 5);
  text.survey.format = Format::text;
  EXPECT_WMTP_ERROR(require_suitable_data(text), ErrorKind::config,
                    "train.jsonl is text, which has none; it needs rows with");
  InitInputs unlabelled = rows_of(Stage::verifiable, 10, 5);
  unlabelled.survey.num_rewards = 14;
  EXPECT_WMTP_ERROR(require_suitable_data(unlabelled), ErrorKind::data,
                    "1 of 15 rows in train.jsonl have no is_correct, which stage verifiable reads");
  EXPECT_WMTP_ERROR(require_suitable_data(rows_of(Stage::critic, 10, 0)), ErrorKind::data,
                    "all 10 rows in train.jsonl are correct");
  InitInputs more = rows_of(Stage::critic, 10, 0);
  more.survey.whole = false;
  require_suitable_data(more);  // others may come later
  require_suitable_data(rows_of(Stage::baseline, 10, 0));
}

TEST(InitStages, GetASuggestion) {
  EXPECT_EQ(parse_stage("rho1"), Stage::rho1);
  EXPECT_WMTP_ERROR(parse_stage("verifable"), ErrorKind::config, "did you mean verifiable?");
  EXPECT_WMTP_ERROR(parse_stage("x"), ErrorKind::config, "known are baseline, critic");
}

}  // namespace
}  // namespace wmtp::cli
