#include "wmtp/tracking/mlflow/rest/refusal.h"

#include <utility>

namespace wmtp::tracking::mlflow {

Refused::Refused(int status, std::string code, std::string_view fact, std::string_view hint,
                 std::source_location where)
    : Error(ErrorKind::config, "mlflow", fact, hint, where),
      status_(status),
      code_(std::move(code)) {}

bool Refused::is_about_content() const {
  // A proxy that finds a body too large has no code of MLflow.
  return status_ == 413 || ((status_ == 400 || status_ == 409 || status_ == 422) && !code_.empty());
}

Unavailable::Unavailable(int status, std::optional<std::chrono::seconds> retry_after,
                         std::string_view fact, std::string_view hint, std::source_location where)
    : Error(ErrorKind::comm, "mlflow", fact, hint, where),
      status_(status),
      retry_after_(retry_after) {}

}  // namespace wmtp::tracking::mlflow
