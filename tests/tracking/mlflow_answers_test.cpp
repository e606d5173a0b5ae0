#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "support/expect_error.h"
#include "wmtp/tracking/mlflow/rest/answers.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::string_view kCall = "GET http://h/api/2.0/mlflow/runs/get";

Run parsed_run(std::string_view body) {
  return run_of(parse_answer(body, kCall), kCall);
}

// A run with one field of its info, or one list of its data, replaced.
std::string run_with(std::string_view info, std::string_view data = "{}") {
  return fmt::format(R"({{"run":{{"info":{{{}}},"data":{}}}}})", info, data);
}
constexpr std::string_view kInfo =
    R"("run_id":"8ab_-1","experiment_id":"3","artifact_uri":"mlflow-artifacts:/3/8ab")";

std::string metric_with(std::string_view fields) {
  return run_with(kInfo, fmt::format(R"({{"metrics":[{{"key":"loss",{}}}]}})", fields));
}

TEST(MlflowAnswers, ARunIsReadWhole) {
  const auto run = parsed_run(run_with(
      kInfo,
      R"({"params":[{"key":"lr","value":"1e-3"}],"tags":[{"key":"t","value":"a\u001bb"}],)"
      R"("metrics":[{"key":"loss","value":0.5,"timestamp":1700000000000,"step":7},)"
      R"({"key":"loss","value":"NaN","timestamp":"1700000000000","step":"9007199254740993"},)"
      R"({"key":"acc","value":1}]})"));
  EXPECT_EQ(run.run_id, "8ab_-1");
  EXPECT_EQ(run.experiment_id, "3");
  EXPECT_EQ(run.artifact_uri, "mlflow-artifacts:/3/8ab");
  EXPECT_EQ(run.params.at("lr"), "1e-3");
  EXPECT_EQ(run.tags.at("t"),
            "a\x1b"
            "b");
  EXPECT_EQ(run.last_steps.at("loss"), 9007199254740993);
  EXPECT_EQ(run.last_steps.at("acc"), 0);
}

TEST(MlflowAnswers, EmptyListsAndDataMayBeMissing) {
  EXPECT_TRUE(parsed_run(run_with(kInfo)).tags.empty());
  EXPECT_FALSE(parsed_run(run_with(kInfo)).is_deleted);
  EXPECT_TRUE(
      parsed_run(run_with(std::string(kInfo) + R"(,"lifecycle_stage":"deleted")")).is_deleted);
  EXPECT_TRUE(parsed_run(fmt::format(R"({{"run":{{"info":{{{}}}}}}})", kInfo)).params.empty());
  EXPECT_FALSE(found_run_of(parse_answer("{}", kCall), kCall));
  EXPECT_FALSE(found_run_of(parse_answer(R"({"runs":[]})", kCall), kCall));
}

TEST(MlflowAnswers, NumbersThatJsonCannotWriteAreTexts) {
  const auto value = [](std::string_view text) {
    return metric_of(parse_answer(fmt::format(R"({{"key":"a","value":{},"step":1}})", text), kCall),
                     kCall)
        .value;
  };
  EXPECT_TRUE(std::isnan(value(R"("NaN")")));
  EXPECT_EQ(value(R"("Infinity")"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value(R"("-Infinity")"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::signbit(value("-0.0")));
  EXPECT_EQ(value("5e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(value("1" + std::string(300, '0')), 1e300);
}

TEST(MlflowAnswers, ExperimentsAndTheirEnd) {
  const auto experiment = [](std::string_view body) {
    return experiment_of(parse_answer(body, kCall), kCall);
  };
  const Experiment gone = experiment(
      R"({"experiment":{"experiment_id":"7","artifact_location":"s3://b","lifecycle_stage":"deleted"}})");
  EXPECT_EQ(gone.id, "7");
  EXPECT_EQ(gone.artifact_location, "s3://b");
  EXPECT_TRUE(gone.is_deleted);
  EXPECT_FALSE(experiment(R"({"experiment":{"experiment_id":"7"}})").is_deleted);
  EXPECT_EQ(created_experiment_of(parse_answer(R"({"experiment_id":"12"})", kCall), kCall), "12");
}

TEST(MlflowAnswers, HostileRunsAreRefusedByCallAndField) {
  const std::string call(kCall);
  const std::pair<std::string, std::string> cases[] = {
      {"", ": the answer cannot be read: JSON: parse error at line 1, column 1"},
      {"<html>", ": the answer cannot be read: JSON: parse error at line 1, column 1"},
      {run_with(kInfo).substr(0, 30), ": the answer cannot be read: JSON: parse error"},
      {R"({"run":{},"run":{}})", ": the answer cannot be read: JSON: duplicate key \"run\""},
      {std::string("{\"a\":\0}", 7), ": the answer cannot be read: JSON: byte 5 is NUL"},
      {"[]", ": the answer is no object"},
      {"{}", ": \"run\" is missing from the answer"},
      {R"({"run":5})", ": \"run\" of the answer is no object"},
      {R"({"run":{}})", ": \"run.info\" is missing from the answer"},
      {R"({"run":{"info":[]}})", ": \"run.info\" of the answer is no object"},
      {run_with(""), ": \"run.info.run_id\" is missing from the answer"},
      {run_with(R"("run_id":5)"), ": \"run.info.run_id\" of the answer is no text"},
      {run_with(R"("run_id":"../x")"), ": \"run.info.run_id\" of the answer is no id: 1 to 256"},
      {run_with(R"("run_id":"a","experiment_id":3)"),
       "\"run.info.experiment_id\" of the answer is"},
      {run_with(R"("run_id":"a","experiment_id":"3")"), "\"run.info.artifact_uri\" is missing"},
      {run_with(kInfo, R"({"params":{}})"), ": \"run.data.params\" of the answer is no list"},
      {run_with(kInfo, R"({"params":[{"key":"a"}]})"), "\"run.data.params[0].value\" is missing"},
      {run_with(kInfo, R"({"tags":[{"key":"a","value":1}]})"),
       ": \"run.data.tags[0].value\" of the answer is no text"},
      {metric_with(R"("value":"nan")"),
       ": \"run.data.metrics[0].value\" of the answer is no number"},
      {metric_with(R"("value":null)"),
       ": \"run.data.metrics[0].value\" of the answer is no number"},
      {metric_with(R"("value":1,"step":1.5)"), "\"run.data.metrics[0].step\" of the answer is no"},
      {metric_with(R"("value":1,"step":"1x")"), "metrics[0].step\" of the answer is no integer"},
      {metric_with(R"("value":1,"step":9223372036854775808)"), "is no integer of 64 bits"},
      {metric_with(R"("value":1,"timestamp":"-9223372036854775809")"), "is no integer of 64 bits"},
  };
  for (const auto& [body, text] : cases) EXPECT_WMTP_ERROR(parsed_run(body), ErrorKind::data, text);
  EXPECT_WMTP_ERROR(parsed_run("{}"), ErrorKind::data, "[mlflow] " + call + ": ");
}

TEST(MlflowAnswers, LimitsHoldAtTheirLastAndBreakAtTheNext) {
  const auto nested = [](int depth) {
    std::string text = "1";
    for (int i = 0; i < depth; ++i) text = R"({"a":)" + text + "}";
    return text;
  };
  EXPECT_NO_THROW(parse_answer(nested(16), kCall));
  EXPECT_WMTP_ERROR(parse_answer(nested(17), kCall), ErrorKind::data, "nested deeper than 16");
  const auto with_id = [](std::size_t size) {
    return run_with(fmt::format(R"("run_id":"{}","experiment_id":"1","artifact_uri":"")",
                                std::string(size, 'a')));
  };
  EXPECT_EQ(parsed_run(with_id(256)).run_id.size(), 256U);
  EXPECT_WMTP_ERROR(parsed_run(with_id(257)), ErrorKind::data, "is no id");
  EXPECT_WMTP_ERROR(parse_answer("{}" + std::string(std::size_t{16} << 20, ' '), kCall),
                    ErrorKind::data, "16777218 bytes of JSON, the limit is 16777216");
}

TEST(MlflowAnswers, ErrorsRepeatNoValueOfTheAnswer) {
  for (const char* body : {R"({"run":{"info":{"run_id":"sesame!"}}})", R"(sesame!)",
                           R"({"run":"sesame!"})", R"({"a":"sesame!)"})
    try {
      parsed_run(body);
      ADD_FAILURE() << body;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("sesame"))) << body;
    }
}

TEST(MlflowAnswers, PartsComeInOrderAndSetNoHeaderOfOurs) {
  const auto upload = [](std::string_view credentials) {
    return multipart_upload_of(
        parse_answer(fmt::format(R"({{"upload_id":"u","credentials":[{}]}})", credentials), kCall),
        kCall);
  };
  const MultipartUpload two = upload(
      R"({"url":"http://a","part_number":1,"headers":{"x-a":"b"}},{"url":"http://b","part_number":"2"})");
  EXPECT_EQ(two.id, "u");
  ASSERT_EQ(two.parts.size(), 2U);
  EXPECT_EQ(two.parts[0].headers.at(0), KeyValue("x-a", "b"));
  EXPECT_WMTP_ERROR(upload(R"({"url":"http://a","part_number":2})"), ErrorKind::data,
                    "\"credentials[0].part_number\" of the answer is not 1");
  for (const char* name : {"host", "Authorization", "content-length", "Range"})
    EXPECT_WMTP_ERROR(
        upload(fmt::format(R"({{"url":"","part_number":1,"headers":{{"{}":"x"}}}})", name)),
        ErrorKind::data, "which is not the server's to set");
}

TEST(MlflowAnswers, WhatIsNoErrorOfMlflowIsTheMessageItself) {
  const ErrorAnswer whole = parse_error_answer(R"({"error_code":"BAD_REQUEST","message":"why"})");
  EXPECT_EQ(whole.code, "BAD_REQUEST");
  EXPECT_EQ(whole.message, "why");
  for (const char* body : {"Invalid Host header", "[1]", R"({"error_code":5})", R"({"code":"A")"}) {
    EXPECT_EQ(parse_error_answer(body).code, "");
    EXPECT_EQ(parse_error_answer(body).message, body);
  }
  EXPECT_EQ(parse_error_answer(R"({"error_code":"\u001b[31m","message":"m"})").code, "");
  EXPECT_EQ(parse_error_answer(std::string(100'000, '\x80')).message.size(), 4000U);
  std::string long_text;
  for (int i = 0; i < 2000; ++i) long_text += "\xC3\xA9";
  EXPECT_EQ(parse_error_answer(long_text).message, long_text.substr(0, 2000));
}

TEST(MlflowAnswers, VersionsAreShortWords) {
  EXPECT_EQ(parse_version("3.17.2"), "3.17.2");
  EXPECT_EQ(parse_version("2.0.0rc1.dev0\r\n"), "2.0.0rc1.dev0");
  for (const char* body : {"", "v2", "<html>", "3.1\x1b[31m", "3.1 2"})
    EXPECT_FALSE(parse_version(body));
  EXPECT_FALSE(parse_version("1" + std::string(64, '0')));
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
