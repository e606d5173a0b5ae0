#include "wmtp/tracking/mlflow/rest/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "wmtp/core/foreign_json.h"
#include "wmtp/core/planted_fault.h"
#include "wmtp/core/utf8.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr JsonLimits kAnswerLimits{.max_bytes = http::kMaxBodyBytes, .max_depth = 16};
constexpr std::size_t kMaxMessageLength = 1000, kMaxCodeBytes = 64;
// The client sets these itself, or they are ours alone.
constexpr std::array<std::string_view, 8> kForbiddenPartHeaders = {
    "Host",       "Content-Length", "Transfer-Encoding", "Expect",
    "Connection", "Range",          "Authorization",     "User-Agent"};

[[noreturn]] void refuse_answer(std::string_view call, std::string_view fact) {
  throw Error(ErrorKind::data, "mlflow", fmt::format("{}: {}", call, fact),
              "is this an MLflow server, and does nothing on the way change its answers?");
}

// A value of an answer and its place there, "run.info.run_id".
class Value {
 public:
  Value(const Json& json, std::string_view call, std::string place)
      : json_(json), call_(call), place_(std::move(place)) {}

  std::optional<Value> find(const char* key) const {
    if (!json_.is_object()) refuse("is no object");
    const auto found = json_.find(key);
    if (found == json_.end()) return std::nullopt;
    return Value(*found, call_, below(key));
  }
  Value at(const char* key) const {
    if (auto found = find(key)) return *found;
    refuse_answer(call_, fmt::format("\"{}\" is missing from the answer", below(key)));
  }
  // Of a list that may be missing: servers leave out empty ones.
  std::vector<Value> items(const char* key) const {
    const auto list = find(key);
    if (!list) return {};
    if (!list->json_.is_array()) list->refuse("is no list");
    std::vector<Value> items;
    for (std::size_t i = 0; i < list->json_.size() + planted_off_by_one; ++i)
      items.emplace_back(list->json_[i], call_, fmt::format("{}[{}]", list->place_, i));
    return items;
  }
  std::string text() const {
    if (!json_.is_string()) refuse("is no text");
    return json_.get<std::string>();
  }
  std::int64_t integer() const {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const bool fits = !json_.is_number_unsigned() || json_.get<std::uint64_t>() <= kMax;
    if (json_.is_number_integer() && fits) return json_.get<std::int64_t>();
    std::int64_t value = 0;
    if (json_.is_string()) {
      const auto& digits = json_.get_ref<const std::string&>();
      const char* last = digits.data() + digits.size();
      const auto [end, error] = std::from_chars(digits.data(), last, value);
      if (error == std::errc() && end == last) return value;
    }
    refuse("is no integer of 64 bits");
  }
  double number() const {
    if (json_.is_number()) return json_.get<double>();
    if (json_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (json_ == "Infinity") return std::numeric_limits<double>::infinity();
    if (json_ == "-Infinity") return -std::numeric_limits<double>::infinity();
    refuse("is no number");
  }
  // It goes into later requests.
  std::string id(std::size_t max_bytes) const {
    std::string id = text();
    const auto is_legal = [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    };
    if (id.empty() || id.size() > max_bytes || !std::ranges::all_of(id, is_legal))
      refuse(fmt::format("is no id: 1 to {} letters, digits, _ and -", max_bytes));
    return id;
  }
  std::vector<KeyValue> texts() const {  // of an object
    if (!json_.is_object()) refuse("is no object");
    std::vector<KeyValue> pairs;
    for (const auto& [name, value] : json_.items())
      pairs.emplace_back(name, Value(value, call_, place_).text());
    return pairs;
  }
  [[noreturn]] void refuse(std::string_view fact) const {
    refuse_answer(call_, place_.empty() ? fmt::format("the answer {}", fact)
                                        : fmt::format("\"{}\" of the answer {}", place_, fact));
  }

 private:
  std::string below(const char* key) const {
    return place_.empty() ? key : fmt::format("{}.{}", place_, key);
  }

  const Json& json_;
  std::string_view call_;
  std::string place_;
};

Metric read_metric(const Value& value) {
  Metric metric;
  metric.key = value.at("key").text();
  metric.value = value.at("value").number();
  if (const auto timestamp = value.find("timestamp")) metric.timestamp_ms = timestamp->integer();
  if (const auto step = value.find("step")) metric.step = step->integer();
  return metric;
}

Run read_run(const Value& value) {
  const Value info = value.at("info");
  Run run;
  run.run_id = info.at("run_id").id(kMaxRunIdBytes);
  run.experiment_id = info.at("experiment_id").id(kMaxExperimentIdBytes);
  run.artifact_uri = info.at("artifact_uri").text();
  if (const auto stage = info.find("lifecycle_stage")) run.is_deleted = stage->text() == "deleted";
  const auto data = value.find("data");
  if (!data) return run;
  for (const Value& param : data->items("params"))
    run.params.insert_or_assign(param.at("key").text(), param.at("value").text());
  for (const Value& tag : data->items("tags"))
    run.tags.insert_or_assign(tag.at("key").text(), tag.at("value").text());
  for (const Value& item : data->items("metrics")) {
    const Metric metric = read_metric(item);
    const auto [place, is_new] = run.last_steps.emplace(metric.key, metric.step);
    if (!is_new) place->second = std::max(place->second, metric.step);
  }
  return run;
}

PartTarget read_part(const Value& value, std::size_t number) {
  const Value part_number = value.at("part_number");
  if (part_number.integer() != static_cast<std::int64_t>(number))
    part_number.refuse(fmt::format("is not {}", number));
  PartTarget part{.url = value.at("url").text(), .headers = {}};
  const auto headers = value.find("headers");
  if (!headers) return part;
  part.headers = headers->texts();
  for (const auto& [name, text] : part.headers)
    for (const std::string_view forbidden : kForbiddenPartHeaders)
      if (http::same_header_name(name, forbidden))
        headers->refuse(fmt::format("sets {}, which is not the server's to set", forbidden));
  return part;
}

}  // namespace

Json parse_answer(std::string_view body, std::string_view call) {
  Json answer;
  try {
    answer = parse_foreign_json(body, "JSON", kAnswerLimits);
  } catch (const Error& error) {
    // Behind this, the parser repeats what it read.
    const std::string fact = error.fact().substr(0, error.fact().find("; last read"));
    refuse_answer(call, fmt::format("the answer cannot be read: {}", visible(fact)));
  }
  if (!answer.is_object()) refuse_answer(call, "the answer is no object");
  return answer;
}

Experiment experiment_of(const Json& answer, std::string_view call) {
  const Value value = Value(answer, call, "").at("experiment");
  Experiment experiment;
  experiment.id = value.at("experiment_id").id(kMaxExperimentIdBytes);
  if (const auto location = value.find("artifact_location"))
    experiment.artifact_location = location->text();
  if (const auto stage = value.find("lifecycle_stage"))
    experiment.is_deleted = stage->text() == "deleted";
  return experiment;
}

std::string created_experiment_of(const Json& answer, std::string_view call) {
  return Value(answer, call, "").at("experiment_id").id(kMaxExperimentIdBytes);
}

Run run_of(const Json& answer, std::string_view call) {
  return read_run(Value(answer, call, "").at("run"));
}

std::optional<Run> found_run_of(const Json& answer, std::string_view call) {
  const std::vector<Value> runs = Value(answer, call, "").items("runs");
  if (runs.empty()) return std::nullopt;
  return read_run(runs.front());
}

Metric metric_of(const Json& metric, std::string_view call) {
  return read_metric(Value(metric, call, ""));
}

MultipartUpload multipart_upload_of(const Json& answer, std::string_view call) {
  const Value value(answer, call, "");
  MultipartUpload upload;
  if (const auto id = value.find("upload_id")) upload.id = id->text();  // Azure has none
  for (const Value& part : value.items("credentials"))
    upload.parts.push_back(read_part(part, upload.parts.size() + 1));
  return upload;
}

ErrorAnswer parse_error_answer(std::string_view body) {
  ErrorAnswer error;
  try {
    const Json answer = parse_foreign_json(body, "JSON", kAnswerLimits);
    const auto text = [&](const char* key) {
      const bool is_text = answer.is_object() && answer.contains(key) && answer[key].is_string();
      return is_text ? answer[key].get<std::string>() : std::string();
    };
    error = {text("error_code"), text("message")};
  } catch (const Error&) {
    error = {};  // no JSON: text, or a page
  }
  // What is no word of MLflow is that of another service.
  const auto is_code = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
  if (error.code.size() > kMaxCodeBytes || !std::ranges::all_of(error.code, is_code))
    error.code.clear();
  if (error.message.empty()) error.message = body;
  error.message.resize(std::min(error.message.size(), 4 * kMaxMessageLength));  // if it is no UTF-8
  error.message = std::string(first_code_points(error.message, kMaxMessageLength));
  return error;
}

std::optional<std::string> parse_version(std::string_view body) {
  constexpr std::string_view kCharacters =
      "0123456789.+-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  while (!body.empty() && (body.back() == '\n' || body.back() == '\r')) body.remove_suffix(1);
  const bool is_version = !body.empty() && body.size() <= 64 && body[0] >= '0' && body[0] <= '9' &&
                          body.find_first_not_of(kCharacters) == body.npos;
  return is_version ? std::optional(std::string(body)) : std::nullopt;
}

}  // namespace wmtp::tracking::mlflow
