// What an MLflow server answers, read strictly: JSON of at most 16 MiB and 16 levels. Where a field
// is missing or of another type, Error data names the call and the field. No error repeats a
// value of the answer.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/tracking/mlflow/rest/server.h"

namespace wmtp::tracking::mlflow {

inline constexpr std::size_t kMaxRunIdBytes = 256, kMaxExperimentIdBytes = 64;

// An object. `call` stands in errors for the request: "POST http://host/api/2.0/mlflow/runs/get".
Json parse_answer(std::string_view body, std::string_view call);

struct Experiment {
  std::string id, artifact_location;
  bool is_deleted = false;
};
Experiment experiment_of(const Json& answer, std::string_view call);  // experiments/get-by-name
std::string created_experiment_of(const Json& answer, std::string_view call);  // its id
Run run_of(const Json& answer, std::string_view call);                         // runs/create, get
std::optional<Run> found_run_of(const Json& answer, std::string_view call);    // runs/search
// Int64 as a number or as decimal text; the value also as "NaN", "Infinity", "-Infinity".
Metric metric_of(const Json& metric, std::string_view call);

// mpu/create: where the parts of a file go. Parts are numbered from 1 on, in this order.
struct PartTarget {
  std::string url;
  std::vector<KeyValue> headers;
};
struct MultipartUpload {
  std::string id;
  std::vector<PartTarget> parts;
};
MultipartUpload multipart_upload_of(const Json& answer, std::string_view call);

// Of an answer that is no success. Never fails: a body without this form is the message itself.
// The message is at most 1000 code points, and not escaped.
struct ErrorAnswer {
  std::string code;  // empty where there is none of MLflow's form
  std::string message;
};
ErrorAnswer parse_error_answer(std::string_view body);

// GET /version: "3.17.2"; nothing: the body is no version.
std::optional<std::string> parse_version(std::string_view body);

}  // namespace wmtp::tracking::mlflow
