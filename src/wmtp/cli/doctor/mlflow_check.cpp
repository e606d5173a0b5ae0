#include "wmtp/cli/doctor/mlflow_check.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "wmtp/core/time.h"
#include "wmtp/http/http_date.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/mlflow/bucket_artifacts.h"
#include "wmtp/tracking/mlflow/rest/answers.h"
#include "wmtp/tracking/mlflow/rest/artifacts.h"
#include "wmtp/tracking/mlflow/rest/connection.h"

namespace wmtp::cli {
namespace {

namespace mlflow = tracking::mlflow;
using namespace std::chrono_literals;

constexpr std::int64_t kClockToleranceS = 60;
constexpr const char* kIsItMlflow = "is this the address of an MLflow server, its path included?";

class TrackingExam {
 public:
  TrackingExam(const MlflowWishes& wishes, const http::Environment& env)
      : wishes_(wishes), env_(env) {}

  std::vector<Check> findings() {
    if (find_address() && find_library() && find_trust() && reach() && find_experiment()) {
      show_experiment();
      show_artifact_store();
    }
    return std::move(checks_);
  }

 private:
  void add(Health health, std::string name, std::string fact, std::string fix = {}) {
    checks_.push_back({health, std::move(name), std::move(fact), std::move(fix), {}});
  }
  bool fail(std::string name, const Error& error, std::string_view fix = {}) {
    add(Health::fail, std::move(name), error.fact(),
        error.hint().empty() ? std::string(fix) : error.hint());
    return false;
  }

  bool find_address() {
    if (wishes_.uri.empty()) {
      add(Health::fail, "MLflow",
          "no address: mlflow.tracking_uri and MLFLOW_TRACKING_URI are not set",
          "set one of them, for example MLFLOW_TRACKING_URI=https://host:5000");
      return false;
    }
    http::ClientOptions options;
    options.connect_limit = 5s;
    options.total_limit = options.stall_limit = 10s;
    options.env = env_;
    try {
      connection_.emplace(wishes_.uri, std::move(options));
    } catch (const Error& error) {
      return fail("MLflow", error);
    }
    add(Health::ok, "MLflow", connection_->address().shown());
    return true;
  }

  bool find_library() {
    try {
      add(Health::ok, "libcurl", tracking::visible(http::curl_version()));
      return true;
    } catch (const Error& error) {
      return fail("libcurl", error);
    }
  }

  // How the server is known to be the one that was meant; shown once it has been reached.
  bool find_trust() {
    const http::Url& address = connection_->address();
    const http::ClientOptions& options = connection_->options();
    trust_ = {Health::ok, "TLS", "", "", {}};
    if (!address.is_tls()) {
      trust_.fact = address.is_loopback() ? "none: plain http to this machine" : "none: plain http";
      if (address.is_loopback()) return true;
      trust_.health = Health::warn;
      trust_.fix = "use https: everyone on the way can read and change what is sent";
    } else if (!options.verify_tls) {
      trust_.health = Health::warn;
      trust_.fact = "certificates are not checked (MLFLOW_TRACKING_INSECURE_TLS)";
      trust_.fix = "unset it, and name the server's authority by MLFLOW_TRACKING_SERVER_CERT_PATH";
    } else {
      try {
        const auto file = options.ca_file.empty() ? http::find_ca_bundle(env_) : options.ca_file;
        trust_.fact = fmt::format("checked against {}", tracking::visible(file.string()));
      } catch (const Error& error) {
        return fail("TLS", error);
      }
    }
    return true;
  }

  bool reach() {
    const http::Request request = connection_->request("GET", "/version");
    const Clock::time_point start = Clock::now();
    http::Response response;
    try {
      response = connection_->send(request);
      const bool is_about_us = response.status >= 400 && response.status < 500;
      if (!is_about_us) connection_->check(request, response);  // redirects, faults of the server
    } catch (const http::Failure& failure) {
      if (failure.failure() == http::FailureKind::tls) return fail("TLS", failure);
      checks_.push_back(trust_);
      return fail("reachable", failure, "is the server running, and is this its address?");
    } catch (const Error& error) {
      checks_.push_back(trust_);
      return fail("reachable", error, "see the log of the server");
    }
    checks_.push_back(trust_);
    add(Health::ok, "reachable",
        fmt::format("answered within {:.0f} ms", seconds_since(start) * 1e3));
    show_clock(response);
    show_version(response);
    return true;
  }

  void show_clock(const http::Response& response) {
    const auto date = http::parse_http_date(response.headers.find("Date").value_or(""));
    if (!date) return;
    const std::int64_t difference = *date - static_cast<std::int64_t>(std::time(nullptr));
    const bool is_near = std::abs(difference) <= kClockToleranceS;
    add(is_near ? Health::ok : Health::warn, "server clock",
        fmt::format("{} s {} this machine's", std::abs(difference),
                    difference < 0 ? "behind" : "ahead of"),
        is_near ? "" : "set both by NTP: metrics carry this machine's time");
  }

  void show_version(const http::Response& response) {
    const auto version =
        response.is_success() ? mlflow::parse_version(response.body) : std::nullopt;
    if (!version) {
      add(Health::warn, "version", fmt::format("not told (GET /version: {})", response.status),
          kIsItMlflow);
      return;
    }
    int major = 0;
    std::from_chars(version->data(), version->data() + version->size(), major);
    add(major >= 2 ? Health::ok : Health::warn, "version", *version,
        major >= 2 ? "" : "use MLflow 2.4 or later: before it, servers take no datasets");
  }

  // Nothing: there is none of this name.
  std::optional<mlflow::Experiment> ask_for(const std::string& name) {
    constexpr std::string_view kCall = "mlflow/experiments/get-by-name";
    try {
      return mlflow::experiment_of(connection_->get(kCall, {{"experiment_name", name}}), kCall);
    } catch (const mlflow::Refused& refused) {
      if (refused.code() == "RESOURCE_DOES_NOT_EXIST") return std::nullopt;
      throw;
    }
  }

  bool find_experiment() {
    try {
      experiment_ = ask_for(wishes_.experiment.empty() ? "Default" : wishes_.experiment);
    } catch (const mlflow::Refused& refused) {
      const bool is_about_us = refused.status() == 401 || refused.status() == 403;
      return fail(is_about_us ? "credentials" : "experiment", refused, kIsItMlflow);
    } catch (const Error& error) {
      return fail("experiment", error, "see the log of the server");
    }
    add(Health::ok, "credentials",
        connection_->has_credentials() ? "accepted" : "none set, and none are asked for");
    return true;
  }

  void show_experiment() {
    const std::string name = fmt::format("\"{}\"", tracking::visible(wishes_.experiment));
    if (wishes_.experiment.empty())
      add(Health::ok, "experiment", "none named: runs send nothing until mlflow.experiment is set");
    else if (!experiment_)
      add(Health::ok, "experiment", name + " is not there yet: the first run makes it");
    else if (experiment_->is_deleted)
      add(Health::fail, "experiment", fmt::format("{} (id {}) was deleted", name, experiment_->id),
          fmt::format("restore it with `mlflow experiments restore -x {}`, or set "
                      "mlflow.experiment to another name",
                      experiment_->id));
    else
      add(Health::ok, "experiment", fmt::format("{} is there (id {})", name, experiment_->id));
  }

  void show_artifact_store() {
    try {
      if (!experiment_) experiment_ = ask_for("Default");  // new ones get a store of its kind
      if (!experiment_) return;
      if (mlflow::BucketArtifacts::takes(experiment_->artifact_location))
        return add(
            Health::ok, "artifacts",
            fmt::format("to the bucket {}", tracking::visible(experiment_->artifact_location)),
            "wmtp doctor --s3 tries the way to a bucket");
      mlflow::artifact_folder(experiment_->artifact_location, connection_->address());
      add(Health::ok, "artifacts", "through the server");
    } catch (const Error& error) {
      add(Health::warn, "artifacts", error.fact(), error.hint());
    }
  }

  const MlflowWishes& wishes_;
  const http::Environment& env_;
  std::optional<mlflow::Connection> connection_;
  std::optional<mlflow::Experiment> experiment_;
  Check trust_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> check_mlflow(const MlflowWishes& wishes, const http::Environment& env) {
  return TrackingExam(wishes, env).findings();
}

}  // namespace wmtp::cli
