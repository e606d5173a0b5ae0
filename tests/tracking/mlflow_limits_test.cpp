#include <cmath>
#include <limits>
#include <set>

#include "support/expect_error.h"
#include "wmtp/core/utf8.h"
#include "wmtp/tracking/mlflow/rest/batch.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {
namespace {

TEST(MlflowKeys, LegalOnesStayAsTheyAre) {
  const std::string longest(250, 'k');
  for (const std::string& key :
       {std::string("loss"), std::string("train/loss"), std::string("a.b-c_d:e f"),
        std::string("system/gpu_0_power_usage_watts"), std::string(".a"), std::string("a/..b"),
        std::string("a/b.."), std::string("-"), std::string(" "), longest}) {
    EXPECT_TRUE(is_legal_key(key)) << key;
    EXPECT_FALSE(fit_key(key).is_changed) << key;
    EXPECT_EQ(fit_key(key).text, key);
  }
}

TEST(MlflowKeys, OthersBecomeLegalAndStayDifferent) {
  std::set<std::string> fitted;
  const std::string long_key(300, 'k');
  const std::vector<std::string> keys = {"",
                                         ".",
                                         "..",
                                         "...",
                                         "/",
                                         "/a",
                                         "a/",
                                         "a//b",
                                         "a/./b",
                                         "a/../b",
                                         "../a",
                                         "..a",
                                         "a\nb",
                                         "a,b",
                                         "a;b",
                                         std::string("a\0b", 3),
                                         "\xED\x95\x9C",
                                         "\xEA\xB8\x80",
                                         "\xff",
                                         "lr (head)",
                                         long_key,
                                         long_key + "2",
                                         std::string(240, 'k') + "/./" + std::string(20, 'k'),
                                         std::string(238, 'k') + "/..b" + std::string(20, 'k')};
  for (const std::string& key : keys) {
    EXPECT_FALSE(is_legal_key(key)) << key;
    const Fitted made = fit_key(key);
    EXPECT_TRUE(made.is_changed) << key;
    EXPECT_TRUE(is_legal_key(made.text)) << key << " became " << made.text;
    EXPECT_TRUE(fitted.insert(made.text).second) << key << " became " << made.text;
    EXPECT_EQ(fit_key(key).text, made.text);
  }
  EXPECT_EQ(fit_key("lr (head)").text, "lr _head__94bf8cdc");
  EXPECT_EQ(fit_key("/a//b/../c").text.substr(0, 9), "a/b/__/c_");
}

TEST(MlflowValues, AreCutBetweenCodePoints) {
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "\xF0\x9F\x98\x80";
  EXPECT_EQ(fit_param(text).text, text.substr(0, 6000 * 4));
  EXPECT_EQ(fit_tag(text).text, text.substr(0, 8000 * 4));
  EXPECT_EQ(fit_name(text).text, text.substr(0, 500 * 4));
  EXPECT_TRUE(fit_param(text).is_changed);
  EXPECT_FALSE(fit_param(text.substr(0, 6000 * 4)).is_changed);
  EXPECT_FALSE(fit_tag("").is_changed);
  EXPECT_EQ(fit_name("").text, "_");
}

TEST(MlflowValues, HoldWhatADatabaseTakes) {
  const Fitted made = fit_tag(std::string("a\0b\xff\xE2\x82", 6));
  EXPECT_EQ(made.text,
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_TRUE(made.is_changed);
  EXPECT_FALSE(find_invalid_utf8(made.text));
  EXPECT_FALSE(fit_tag("line\nfeed\tand \x1b").is_changed);
}

TEST(MlflowBatch, TakesThisMuchAndNoMore) {
  const auto count = [](auto add) {
    int taken = 0;
    while (add()) ++taken;
    return taken;
  };
  const Metric metric{"loss", 0.5, 1'700'000'000'000, 7};
  BatchRoom metrics, params, tags, together, large;
  EXPECT_EQ(count([&] { return metrics.add_metric(metric); }), 1000);
  EXPECT_EQ(count([&] { return params.add_param({"a", "b"}); }), 100);
  EXPECT_EQ(count([&] { return tags.add_tag({"a", "b"}); }), 100);
  EXPECT_EQ(count([&] { return together.add_param({"a", "b"}); }), 100);
  EXPECT_EQ(count([&] { return together.add_tag({"a", "b"}); }), 100);
  EXPECT_EQ(count([&] { return together.add_metric(metric); }), 800);
  const KeyValue long_tag{std::string(250, 'k'), std::string(8000, '"')};  // 16,000 as JSON
  Batch batch;
  while (large.add_tag(long_tag)) batch.tags.push_back(long_tag);
  EXPECT_EQ(batch.tags.size(), 61U);
  const std::string run_id(256, 'r');
  EXPECT_LE(batch_json(run_id, batch).dump().size(), kMaxBatchCharacters);
  batch.tags.push_back(long_tag);
  EXPECT_GT(batch_json(run_id, batch).dump().size(), kMaxBatchCharacters - 512);
}

TEST(MlflowBatch, NumbersAreWrittenSoThatTheyComeBack) {
  const auto written = [](double value) {
    return metric_json({"a", value, 1, std::int64_t{1} << 53}).dump();
  };
  EXPECT_EQ(written(0.1), R"({"key":"a","value":0.1,"timestamp":1,"step":9007199254740992})");
  EXPECT_THAT(written(std::nan("")), testing::HasSubstr(R"("value":"NaN")"));
  EXPECT_THAT(written(INFINITY), testing::HasSubstr(R"("value":"Infinity")"));
  EXPECT_THAT(written(-INFINITY), testing::HasSubstr(R"("value":"-Infinity")"));
  EXPECT_THAT(written(-0.0), testing::HasSubstr(R"("value":-0.0)"));
  EXPECT_THAT(written(5e-324), testing::HasSubstr(R"("value":5e-324)"));
  EXPECT_EQ(batch_json("r", {.metrics = {}, .params = {{"p", "1"}}, .tags = {}}).dump(),
            R"({"run_id":"r","params":[{"key":"p","value":"1"}]})");
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
