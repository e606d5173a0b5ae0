// The table of rules as a whole, and how findings are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/paths.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/findings/findings.h"
#include "wmtp/tracking/report/findings_html.h"
#include "wmtp/tracking/report/page.h"

namespace wmtp::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string document(std::string_view path) {
  return test::slurp(test::source_dir() / path);
}

std::vector<std::string_view> found_in(const RunData& run) {
  std::vector<std::string_view> ids;
  for (const Finding& finding : find_causes(run).found) ids.push_back(finding.rule->id);
  return ids;
}

RunData cut_run() {
  RunData run;
  run.name = "a";
  run.environment = {{"data.train.truncated_rows.correct", "50"},
                     {"data.train.truncated_rows.incorrect", "0"},
                     {"data.train.candidates", "100"}};
  return run;
}

TEST(FindingRules, DocumentIsUpToDate) {
  const std::string table = "\n" + finding_rules_markdown() + "\n";
  EXPECT_NE(document("docs/report.md").find(table), std::string::npos)
      << "its section Findings is to have this table:\n"
      << table;
}

TEST(FindingRules, NameKeysSectionsChartsAndRulesThatExist) {
  const std::string keys = "\n" + document("tests/golden/config_keys.txt");
  std::set<std::string> charts{""};
  for (const CurveGroup& group : curve_groups()) charts.insert(group.title);
  std::set<std::string_view> ids;
  for (const Rule& rule : finding_rules()) EXPECT_TRUE(ids.insert(rule.id).second) << rule.id;
  for (const Rule& rule : finding_rules()) {
    EXPECT_FALSE(rule.keys.empty()) << rule.id;
    for (const std::string_view key : rule.keys) {
      EXPECT_THAT(keys, HasSubstr("\n" + std::string(key) + "\n")) << rule.id;
      EXPECT_THAT(rule.advice, HasSubstr(key)) << rule.id;
    }
    EXPECT_THAT(document(rule.docs), HasSubstr("\n## " + std::string(rule.section) + "\n"))
        << rule.id;
    EXPECT_TRUE(charts.contains(std::string(rule.chart))) << rule.id;
    for (const std::string_view cause : rule.explained_by)
      EXPECT_TRUE(ids.contains(cause)) << rule.id;
  }
}

TEST(FindingRules, WhatIsExplainedByAnotherIsLeftOut) {
  RunData run;
  for (int step = 1; step <= 16; ++step)
    run.series["train/grad_clip_ratio"].push_back({step, 0.01});
  EXPECT_THAT(found_in(run), ElementsAre("gradients-clipped"));
  for (int step = 1; step <= 16; ++step)
    run.series["train/loss"].push_back({step, step < 3 ? 2.0 : 9.0});
  EXPECT_THAT(found_in(run), ElementsAre("rate-too-high"));
}

TEST(FindingRules, ProblemsComeFirst) {
  RunData run = cut_run();
  for (int step = 1; step <= 4; ++step) run.series["weight/clipping_ratio"].push_back({step, 0.9});
  EXPECT_THAT(found_in(run), ElementsAre("truncated-answers", "weights-clipped"));
}

TEST(FindingViews, AllFormsTellFactNumbersKeyAndPlace) {
  const RunData run = cut_run();
  for (const std::string& told : {findings_text(run), findings_html(run)})
    for (const char* part :
         {"50 of 100 rows", "data.train.truncated_rows 50", "dataset.max_length",
          "docs/troubleshooting.md", "Rows that teach nothing", "truncated-answers", "problem"})
      EXPECT_THAT(told, HasSubstr(part));
  const OrderedJson json = findings_json(run)["findings"];
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["id"], "truncated-answers");
  EXPECT_EQ(json[0]["severity"], "problem");
  EXPECT_EQ(json[0]["numbers"]["data.train.truncated_rows"], 50);
  EXPECT_EQ(json[0]["docs"], "docs/troubleshooting.md#rows-that-teach-nothing");
}

TEST(FindingViews, NothingFoundSaysWhatWasLookedAt) {
  RunData run;
  run.name = "fine";
  run.series["val/loss"] = {{1, 3}, {2, 2}, {3, 1}};
  const std::string text = findings_text(run);
  EXPECT_THAT(text, HasSubstr("fine: nothing found; looked at: restarts without progress, "
                              "a validation loss that stands still; no numbers for: "));
  EXPECT_THAT(findings_html(run), HasSubstr("<p>Nothing found.</p>"));
  const OrderedJson json = findings_json(run);
  EXPECT_TRUE(json["findings"].empty());
  EXPECT_EQ(json["looked_at"], OrderedJson({"restarts-without-progress", "flat-loss"}));
  EXPECT_EQ(json["looked_at"].size() + json["not_looked_at"].size(), finding_rules().size());
}

TEST(FindingViews, NumbersLeadToTheDrawingAndWordsOfTheRunAreEscaped) {
  RunData run;
  run.name = "\x1b[2J<b>";
  run.series["perf/slowest_rank_speed"] = run.series["perf/straggler_slowdown"] = {{30, 2.0}};
  run.events = {{30, "straggler", "rank 1 on <i>\x1b[31m holds the others up"}};
  const std::string page = report_page({run});
  EXPECT_THAT(page, HasSubstr("<a href=\"#curve-speed-of-the-slowest-rank\">"));
  EXPECT_THAT(page, HasSubstr("<figure id=\"curve-speed-of-the-slowest-rank\">"));
  EXPECT_LT(page.find("Findings"), page.find("Overview"));
  for (const std::string& told : {page, findings_text(run)})
    EXPECT_EQ(told.find('\x1b'), std::string::npos);
  EXPECT_THAT(page, Not(HasSubstr("<i>")));
  EXPECT_THAT(report_page({run, run}), HasSubstr("<h2 id=\"curve-speed-of-the-slowest-rank\">"));
}

}  // namespace
}  // namespace wmtp::tracking
