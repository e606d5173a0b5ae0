#include "wmtp/data/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"

namespace wmtp::data {
namespace {

using test::CorpusFixture;
using test::FakeTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using wmtp::test::TempDir;
using wmtp::test::write_file;

class SurveyedFile {
 public:
  explicit SurveyedFile(const std::string& text, const std::string& name = "rows.jsonl") {
    write_file(dir_ / name, text);
    options.files = {(dir_ / name).string()};
    options.encode.prompt_template = PromptTemplate::raw;
  }
  Survey survey() const { return survey_files(options, FakeTokenizer()); }

  DatasetOptions options;

 private:
  TempDir dir_;
};

// [BOS] a, `length` times b, [EOS] under the template raw.
std::string row_of_length(std::size_t length) {
  return R"({"instruction": "a", "output": ")" + std::string(length - 3, 'b') + "\"}\n";
}

TEST(Survey, LengthsAreThoseOfTheTokensWithTheTemplate) {
  std::string text;
  for (std::size_t length = 103; length > 3; --length) text += row_of_length(length);
  const Survey survey = SurveyedFile(text).survey();
  EXPECT_EQ(survey.format, Format::instruct);
  EXPECT_EQ(survey.num_rows, 100U);
  EXPECT_EQ(survey.about_size, 100U);
  EXPECT_TRUE(survey.whole);
  ASSERT_EQ(survey.lengths.size(), 100U);
  EXPECT_EQ(survey.lengths.front(), 4U);
  EXPECT_EQ(survey.length_of_share(0.99), 102U);
  EXPECT_EQ(survey.length_of_share(1), 103U);
  EXPECT_EQ(survey.length_of_share(0.5), 53U);
  EXPECT_EQ(survey.num_longer_than(102), 1U);
  EXPECT_EQ(survey.num_longer_than(103), 0U);
}

TEST(Survey, LengthsEndAfterAThousandRowsAndClassesDoNot) {
  std::string text;
  for (int i = 0; i < 1200; ++i) text += CorpusFixture::row(i) + "\n";
  const Survey survey = SurveyedFile(text).survey();
  EXPECT_EQ(survey.lengths.size(), Survey::kMaxLengths);
  EXPECT_EQ(survey.num_rows, 1200U);
  EXPECT_EQ(survey.num_correct, 600U);
}

TEST(Survey, CountsClassesPairsDifficultiesAndColumnsThatNothingReads) {
  std::string text;
  for (int i = 0; i < 53; ++i) text += CorpusFixture::row(i) + "\n";
  text += R"({"instruction": "x", "output": "y", "source": "z", "is_correct": 0.25})";
  const Survey survey = SurveyedFile(text).survey();
  EXPECT_EQ(survey.num_rows, 54U);
  EXPECT_EQ(survey.num_rewards, 54U);
  EXPECT_EQ(survey.num_correct, 27U);
  EXPECT_EQ(survey.num_incorrect(), 27U);
  EXPECT_EQ(survey.num_pairs, 26U) << "13 problems of four rows; one row stands alone";
  EXPECT_EQ(survey.num_difficulties, 53U);
  EXPECT_EQ(survey.min_difficulty, 0);
  EXPECT_EQ(survey.max_difficulty, 4);
  EXPECT_THAT(survey.ignored_keys, ElementsAre(Pair("source", 1U)));
}

TEST(Survey, RowsOfOneClassMakeNoPair) {
  const Survey survey = SurveyedFile(CorpusFixture::row(0) + "\n" + CorpusFixture::row(2)).survey();
  EXPECT_EQ(survey.num_correct, 2U);
  EXPECT_EQ(survey.num_pairs, 0U);
}

TEST(Survey, BadLinesAreCountedAndTheFirstIsNamed) {
  SurveyedFile file("\n{\"instruction\": \"a\", \"output\": 3}\n" + row_of_length(9) +
                    "nonsense\n" + row_of_length(2000) + row_of_length(7));
  file.options.bad_lines.max_line_bytes = 500;
  const Survey survey = file.survey();
  EXPECT_EQ(survey.num_bad, 3U) << "a number, nonsense, a line that is too long";
  EXPECT_THAT(survey.first_bad, HasSubstr("rows.jsonl:2:"));
  EXPECT_THAT(survey.first_bad, HasSubstr("\"output\" is a number"));
  EXPECT_THAT(survey.lengths, ElementsAre(7U, 9U));
}

TEST(Survey, OneRowIsEnoughAndNoneIsNot) {
  EXPECT_EQ(SurveyedFile(row_of_length(5)).survey().length_of_share(0.99), 5U);
  for (const char* empty : {"", "\n \n"})
    EXPECT_WMTP_ERROR(SurveyedFile(empty).survey(), ErrorKind::data, "holds no row");
}

TEST(Survey, AVeryLongRowCountsAsLongAsACacheKeepsIt) {
  const Survey survey = SurveyedFile(row_of_length(2 * kMaxRowTokens)).survey();
  EXPECT_THAT(survey.lengths, ElementsAre(std::uint32_t{kMaxRowTokens}));
}

TEST(Survey, TheColumnOfTextIsTheOneWithMostOfItInEveryRow) {
  const std::string rare(500, 'r');
  const SurveyedFile file(
      "{\"id\": \"1\", \"body\\n\": \"long enough\", \"n\": 12345678901234567, \"rare\": \"" +
      rare + "\"}\n{\"id\": \"2\", \"body\\n\": \"short\"}\n");
  const Survey survey = file.survey();
  EXPECT_EQ(survey.format, Format::text);
  EXPECT_EQ(survey.text_column, "body\n");
  EXPECT_THAT(survey.lengths, ElementsAre(6U, 12U)) << "with BOS";
}

TEST(Survey, ATextColumnStaysAndOtherProgramsRowsAreRefused) {
  const Survey survey = SurveyedFile(R"({"text": "a", "other": "much longer"})").survey();
  EXPECT_EQ(survey.text_column, "text");
  EXPECT_WMTP_ERROR(SurveyedFile("{\"prompt\": \"x\", \"completion\": \"y\"}").survey(),
                    ErrorKind::data, "instruction: .prompt, output: .completion");
}

TEST(Survey, PlainTextIsCountedInTokens) {
  const Survey survey = SurveyedFile(std::string(5000, 'a') + "\n", "a.txt").survey();
  EXPECT_EQ(survey.format, Format::text);
  EXPECT_EQ(survey.text_column, "");
  EXPECT_EQ(survey.about_size, 5001U);
  EXPECT_TRUE(survey.lengths.empty());
}

TEST(Survey, ATokenCacheTellsItsRows) {
  CorpusFixture fixture(20);
  const auto corpus = fixture.corpus();
  DatasetOptions options;
  options.files = {corpus->files().front()->cache.path().string()};
  const Survey survey = survey_files(options, fixture.tokenizer);
  EXPECT_EQ(survey.format, Format::tokens);
  EXPECT_EQ(survey.about_size, 20U);
  EXPECT_EQ(survey.lengths.size(), 20U);
  EXPECT_EQ(survey.num_rewards, 0U);
}

}  // namespace
}  // namespace wmtp::data
