#include "wmtp/data/index/foreign_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using wmtp::test::TempDir;
using wmtp::test::write_file;

std::string refused(const std::filesystem::path& file, const DatasetOptions& options = {}) {
  try {
    format_of(file, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "";
}

TEST(ForeignFiles, AreNamedWithTheCommandThatMakesRows) {
  const TempDir dir;
  const auto file = [&](const char* name, std::string_view content) {
    write_file(dir / name, std::string(content));
    return dir / name;
  };
  const std::string in = (dir / "a").string();
  EXPECT_THAT(refused(file("a.json", "[\n  {\"instruction\": 1}\n]\n")),
              HasSubstr("a.json is a JSON array; rows are JSON Lines, one object a line; make them "
                        "with: jq -c '.[]' < " +
                        in + ".json > " + in + ".jsonl"));
  EXPECT_THAT(
      refused(file("a.jsonl", "\xEF\xBB\xBF{\n  \"instruction\": 1\n}\n")),
      AllOf(HasSubstr("is JSON over several lines"), HasSubstr(" > " + in + "-rows.jsonl")));
  EXPECT_THAT(refused(file("a.csv", "instruction,output\nx,y\n")),
              HasSubstr("a.csv is a CSV file"));
  EXPECT_THAT(refused(file("a.tsv", "instruction\toutput\nx\ty\n")),
              HasSubstr("csv.DictReader(sys.stdin, delimiter='\\t')]\" < " + in + ".tsv > "));
  EXPECT_THAT(refused(file("a.parquet", "PAR1\x15\x04")), HasSubstr("pandas.read_parquet"));
  EXPECT_THAT(refused(file("it's.json", "[{}]")), HasSubstr("it'\\''s.json' > '"));
  EXPECT_EQ(refused(file("b.csv", "{\"instruction\": \"x\", \"output\": \"y\"}\n")), "");
  // One bad line among rows is no array of rows.
  EXPECT_EQ(refused(file("b.jsonl", "[1, 2]\n{\"instruction\": \"x\", \"output\": \"y\"}\n")), "");
}

TEST(ForeignRows, AreToldHowTheyBecomeInstructionRows) {
  const TempDir dir;
  const std::string rows = (dir / "r.jsonl").string(), made = (dir / "r-rows.jsonl").string();
  const auto told = [&](std::string_view line, Format format = Format::automatic) {
    write_file(dir / "r.jsonl", std::string(line) + "\n");
    DatasetOptions options;
    options.format = format;
    return refused(dir / "r.jsonl", options);
  };
  const std::string command =
      "jq -c '. + {instruction: .prompt, output: .completion}' < " + rows + " > " + made;
  for (const Format format : {Format::automatic, Format::instruct})
    EXPECT_THAT(told(R"({"prompt": "x", "completion": "y"})", format),
                AllOf(HasSubstr("in its first good line (keys: prompt, completion)"),
                      HasSubstr(command), HasSubstr("dataset.prompt_template: raw")));
  EXPECT_THAT(told(R"({"messages": [{"role": "user", "content": "x"}]})"),
              AllOf(HasSubstr(".messages[:-1]"), HasSubstr("output: .messages[-1].content")));
  EXPECT_THAT(told(R"({"data": [{}]})"), HasSubstr("jq -c '.data[]'"));
  EXPECT_THAT(told(R"({"body": "x"})"), HasSubstr("dataset.text.column"));
  EXPECT_THAT(told(R"({"body": "x"})", Format::text),
              HasSubstr("no \"text\" in its first good line (keys: body)"));
  EXPECT_THAT(told("nonsense"), HasSubstr("a row is a line with one JSON object"));
}

// Rows without anything but classes, problems and difficulties.
struct FewRows {
  std::vector<std::uint8_t> flags;
  std::vector<std::uint32_t> problem;
  std::vector<std::int16_t> difficulty;
  RowTable table;

  FewRows(std::vector<bool> correct, std::vector<std::uint32_t> of_problem) {
    for (const bool right : correct)
      flags.push_back(static_cast<std::uint8_t>(kRowHasReward | (right ? kRowCorrect : 0)));
    problem = std::move(of_problem);
    difficulty.assign(flags.size(), kNoDifficulty);
    const std::vector<std::string_view> names{"p", "q"};
    RowTable::Part part;
    part.num_rows = static_cast<std::uint32_t>(flags.size());
    part.flags = flags;
    part.problem = problem;
    part.difficulty = difficulty;
    part.problem_names = names;
    table.add(part);
    table.set_candidates(std::vector<bool>(flags.size(), true));
  }

  void draw(const SamplingOptions& options, std::uint64_t count = 0) const {
    DrawReport report;
    draw_samples({table, options, "", count, count == 0, options.difficulty_weights}, report);
  }
};

TEST(NoSamples, BlamesWhatLeftTheRowsOut) {
  SamplingOptions pairs;
  pairs.use_pairwise = true;
  const FewRows alone({true, false}, {kNoProblem, kNoProblem});
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{24}})
    EXPECT_WMTP_ERROR(alone.draw(pairs, count), ErrorKind::data,
                      "no pairs: 2 candidate rows, 2 of them without task_id; give the rows of one "
                      "problem the same task_id");
  const FewRows one_sided({true, true, false}, {0, 0, 1});
  EXPECT_WMTP_ERROR(one_sided.draw(pairs), ErrorKind::data,
                    "no pairs: 3 candidate rows, 2 of 2 problems with right or wrong rows only; a "
                    "pair is a right and a wrong row (is_correct) of one task_id");
  const FewRows paired({true, false}, {0, 0});
  EXPECT_WMTP_ERROR(paired.draw(pairs, 9), ErrorKind::data,
                    "9 pairs wanted, 1 available (data_sampling.n_samples)");
  SamplingOptions bins;
  bins.difficulty_bins = {{"easy", 0, 3}};
  EXPECT_WMTP_ERROR(paired.draw(bins), ErrorKind::data, "2 of them in no difficulty bin; the bins");
  SamplingOptions weights;
  weights.difficulty_weights["other"] = 1;
  EXPECT_WMTP_ERROR(paired.draw(weights), ErrorKind::data, "2 of them in bins without a weight");
  SamplingOptions balanced;
  balanced.balance_correct = true;
  balanced.correct_ratio = 0.5;
  EXPECT_WMTP_ERROR(FewRows({true, true}, {0, 0}).draw(balanced), ErrorKind::data,
                    "2 of them in bins with right or wrong rows only");
}

}  // namespace
}  // namespace wmtp::data
