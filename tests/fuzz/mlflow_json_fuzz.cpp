#include <algorithm>
#include <array>
#include <functional>

#include "fuzz/fuzz.h"
#include "wmtp/core/utf8.h"
#include "wmtp/tracking/mlflow/rest/answers.h"
#include "wmtp/tracking/mlflow/rest/artifacts.h"
#include "wmtp/tracking/mlflow/rest/batch.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace {

using namespace wmtp;
using namespace wmtp::tracking;

void check_id(std::string_view id, std::size_t max_bytes) {
  const bool is_short = !id.empty() && id.size() <= max_bytes;
  fuzz::require(is_short && http::percent_encode(id) == id, "an id that changes its request");
}

void check_run(const mlflow::Run& run) {
  check_id(run.run_id, 256);
  check_id(run.experiment_id, 64);
  try {
    const std::string folder = mlflow::artifact_folder(run.artifact_uri, {});
    fuzz::require(("/" + folder + "/").find("/../") == std::string::npos,
                  "a folder that leads out");
  } catch (const Error& error) {
    fuzz::require(error.kind() != ErrorKind::internal, "an artifact URI that is our fault");
  }
  for (const auto& [key, step] : run.last_steps) {
    const mlflow::Fitted fitted = mlflow::fit_key(key);
    fuzz::require(mlflow::is_legal_key(fitted.text), "a fitted key that is not legal");
    fuzz::require(mlflow::fit_key(fitted.text).text == fitted.text, "a fitted key that changes");
  }
}

void check_parts(const mlflow::MultipartUpload& upload) {
  for (const mlflow::PartTarget& part : upload.parts)
    for (const auto& [name, value] : part.headers)
      fuzz::require(!http::same_header_name(name, "Host"), "a part that names its own host");
}

}  // namespace

// Any answer may come to any call, so each parser sees all of them.
WMTP_FUZZ_TARGET(mlflow_json) {
  const std::string_view text = fuzz::text_of(bytes);
  const mlflow::ErrorAnswer error = mlflow::parse_error_answer(text);
  fuzz::require(error.message.size() <= 4000 && error.code.size() <= 64, "a message too long");
  mlflow::parse_version(text);
  for (const mlflow::Fitted& fitted :
       {mlflow::fit_param(text), mlflow::fit_tag(text), mlflow::fit_name(text)})
    fuzz::require(!find_invalid_utf8(fitted.text), "a fitted value that is no UTF-8");

  const Json answer = mlflow::parse_answer(text, "call");
  const std::array<std::function<void()>, 6> parsers = {
      [&] { check_id(mlflow::experiment_of(answer, "call").id, 64); },
      [&] { check_id(mlflow::created_experiment_of(answer, "call"), 64); },
      [&] { check_run(mlflow::run_of(answer, "call")); },
      [&] {
        if (const auto run = mlflow::found_run_of(answer, "call")) check_run(*run);
      },
      [&] { mlflow::BatchRoom().add_metric(mlflow::metric_of(answer, "call")); },
      [&] { check_parts(mlflow::multipart_upload_of(answer, "call")); },
  };
  for (const auto& parser : parsers) {
    try {
      parser();
    } catch (const Error& refused) {
      fuzz::require(refused.kind() == ErrorKind::data, "another error than data");
    }
  }
}
