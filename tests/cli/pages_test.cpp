// The pages of `data inspect` and `score` by what stands in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wmtp/cli/pages/bars.h"
#include "wmtp/cli/pages/inspect_page.h"
#include "wmtp/cli/pages/page.h"
#include "wmtp/cli/pages/score_page.h"
#include "wmtp/cli/pages/token_views.h"

namespace wmtp::cli::pages {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ScoredRows rows_of(std::size_t max_rows) {
  ScoredRows rows(max_rows);
  rows.add(R"({"type":"header","stage":"rho1"})");
  rows.add(R"({"type":"score","row":4,"ids":[1,2,3],"nll":[[0.5,1.5,null],[2,null,null]],)"
           R"("value":[0.25,-1,0.5],"weight":[[0,1,null],[0.5,null,null]]})");
  rows.add(R"({"type":"score","row":5,"ids":[7,8],"nll":[[null,null],[null,null]],)"
           R"("value":[0,0],"weight":[[null,null],[null,null]]})");
  rows.add(R"({"type":"score","row":6,"part":2,"micro_batch":1,"rank":3,"ids":[9,8],)"
           R"("nll":[[3,null],[null,null]],"value":[0,0],"weight":[[2,null],[null,null]]})");
  rows.add(R"({"type":"result","tokens":3})");
  return rows;
}

TEST(ScoredRows, TheCostliestStayAndAllAreCounted) {
  const ScoredRows rows = rows_of(2);
  EXPECT_EQ(rows.num_rows(), 3u);
  ASSERT_EQ(rows.shown().size(), 2u);
  EXPECT_EQ(rows.shown()[0]->row, 6u);
  EXPECT_EQ(rows.shown()[1]->row, 4u);
  EXPECT_EQ(rows.shown()[1]->nll_mean, 1);
  ASSERT_EQ(rows.heads().size(), 2u);
  EXPECT_EQ(rows.heads()[0].num_targets, 3u);
  EXPECT_EQ(rows.heads()[0].nll_sum, 5);
  EXPECT_EQ(rows.heads()[1].num_targets, 1u);
  EXPECT_EQ(rows.weights()->high, 2);
  EXPECT_EQ(rows.values()->low, -1);
  EXPECT_EQ(rows_of(9).shown().back()->row, 5u) << "without a target: last";
}

TEST(ScoredRows, NumbersBelongToTheTokenThatIsPredicted) {
  const ScoredRows rows = rows_of(9);
  const PageRow& row = *rows.shown()[1];
  const std::vector<TokenView> views = token_views(rows);
  ASSERT_EQ(views.size(), 5u);  // losses and, since they differ, weights of two heads; values
  EXPECT_TRUE(rows.weights_differ_by_head());
  const auto number = [&](std::size_t view, std::size_t token) {
    return views[view].number(row, token);
  };
  EXPECT_FALSE(number(0, 0));
  EXPECT_EQ(number(0, 1), 0.5f);
  EXPECT_FALSE(number(1, 1));
  EXPECT_EQ(number(1, 2), 2.0f);  // head 2 predicts it from the first token
  EXPECT_EQ(number(2, 2), 1.0f);
  EXPECT_EQ(number(4, 1), -1.0f);
  EXPECT_EQ(views[4].shade(-1), 0);
  EXPECT_EQ(views[4].shade(0.5f), 1);
  EXPECT_LT(views[0].shade(1), views[0].shade(2));
}

TEST(ScorePage, TokensHaveTheirNumbersAndIdsWithoutATokenizer) {
  const std::string html = to_html({"a <b>", {{"model", "m\x1b[31m"}}, nullptr}, rows_of(2));
  EXPECT_THAT(html, HasSubstr("<h1>a &lt;b&gt;</h1>"));
  EXPECT_THAT(html, HasSubstr("m\\u001b[31m"));
  EXPECT_THAT(html, HasSubstr("2 of 3 rows stand here"));
  EXPECT_THAT(html, HasSubstr("title=\"2: id 3, loss of head 1 1.5, loss of head 2 2, weight by "
                              "head 1 1, weight by head 2 0.5, value 0.5\">3 </span>"));
  EXPECT_THAT(html,
              HasSubstr("row 6, part 2, micro-batch 2 of rank 3: 2 tokens, targets 1, mean nll 3"));
  EXPECT_THAT(html, Not(HasSubstr("row 5")));
}

TEST(Page, ForeignTextIsSpelledOut) {
  EXPECT_EQ(page_text("<a href='x'>\x1b\u202e&\x07"),
            "&lt;a href=&#39;x&#39;&gt;\\u001b\\u202e&amp;\\u0007");
  EXPECT_EQ(token_text("a\nb"), "a⏎\nb");
}

TEST(InspectPage, PromptTargetsAndPaddingAreToldApart) {
  InspectPage page;
  page.heading = "x";
  page.sequences.push_back({"one", "micro-batch 1 of 1", {5, 6, 7}, {"<s>", "a", "b"}, 2, 4});
  const std::string html = to_html(page);
  EXPECT_THAT(html, HasSubstr("<span class=\"e p\" title=\"1: id 6\">a</span>"
                              "<span class=\"e t\" title=\"2: id 7, target of heads 1 to 2\">b"
                              "</span><span class=\"pad\">4 padding</span>"));
  EXPECT_THAT(html, Not(HasSubstr("<s>")));
  EXPECT_EQ(to_text(page, false),
            "x\n\n=== micro-batch 1 of 1\n\n--- one\n<s>a>>b<< [4 padding]\n");
}

TEST(Bars, ColumnsAreAsHighAsTheirCountsAndSharesFillTheFrame) {
  ColumnChart chart{
      "t", "x", {"a", "b"}, {{0, 1, {1, 3}, "first"}, {1, 2, {0, 2}, "second"}}, false};
  const std::string counts = to_svg(chart);
  EXPECT_THAT(counts, HasSubstr("height=\"126.0\"><title>first: b 3</title>"));
  EXPECT_THAT(counts, HasSubstr("height=\"84.0\"><title>second: b 2</title>"));
  chart.as_shares = true;
  EXPECT_THAT(to_svg(chart), HasSubstr("height=\"168.0\"><title>second: b 2</title>"));
  EXPECT_EQ(to_svg(ColumnChart{}), "");
  EXPECT_THAT(share_bar({{"a", 1, "f0"}, {"b", 3, "f1"}}), HasSubstr("title=\"b: 3 (75.0 %)\""));
}

}  // namespace
}  // namespace wmtp::cli::pages
