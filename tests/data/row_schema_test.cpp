#include "wmtp/data/index/row_schema.h"

#include <gtest/gtest.h>

#include "data/jsonl_rows.h"

namespace wmtp::data {
namespace {

using test::parse;
using test::row_text;

TEST(RowSchema, ReadsAllFields) {
  Row row;
  ASSERT_FALSE(parse(row_text(3), row));
  EXPECT_EQ(row.instruction, "solve 3");
  EXPECT_EQ(row.input, "");
  EXPECT_EQ(row.output, "def f():\n\treturn 3 # \xC3\xA9");
  EXPECT_EQ(*row.reward, 0.0f);
  EXPECT_FALSE(row.correct());
  EXPECT_EQ(*row.difficulty, 4);
  EXPECT_EQ(*problem_of(row), "prob3");
}

TEST(RowSchema, ProblemIdRules) {
  Row row;
  const auto problem = [&](std::string_view id) {
    row.task_id = id;
    return std::string(problem_of(row).value_or("-"));
  };
  EXPECT_EQ(problem("a_correct_1"), "a");
  EXPECT_EQ(problem("a_incorrect_12"), "a");
  EXPECT_EQ(problem("is_correct_2_is_incorrect_7"), "is_correct_2_is");
  EXPECT_EQ(problem("a_correct_"), "a_correct_");
  EXPECT_EQ(problem("a_correct_1b"), "a_correct_1b");
  EXPECT_EQ(problem("xcorrect_1"), "xcorrect_1");
  row.problem_id = "given";
  EXPECT_EQ(problem("a_correct_1"), "given");
  EXPECT_FALSE(problem_of(Row{}));
}

}  // namespace
}  // namespace wmtp::data
