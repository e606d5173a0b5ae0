#include "wmtp/tracking/mlflow/bucket_artifacts.h"

#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/s3/location.h"
#include "wmtp/s3/problem.h"
#include "wmtp/s3/session.h"
#include "wmtp/s3/upload.h"

namespace wmtp::tracking::mlflow {
namespace {

s3::Options options_of(const std::string& artifact_uri, const http::Environment& env) {
  const s3::S3Uri place = s3::parse_s3_uri(artifact_uri);
  s3::Options options;
  options.bucket = place.bucket;
  options.prefix = place.prefix;
  options.endpoint = env("MLFLOW_S3_ENDPOINT_URL").value_or("");
  options.http.env = env;
  return options;
}

}  // namespace

BucketArtifacts::BucketArtifacts(http::Environment env, const std::atomic<bool>& cancelled)
    : env_(std::move(env)), cancelled_(cancelled) {}

bool BucketArtifacts::takes(std::string_view artifact_uri) {
  return s3::is_s3_uri(artifact_uri);
}

void BucketArtifacts::upload(const std::string& artifact_uri, std::string_view name,
                             const std::filesystem::path& file) {
  try {
    if (!session_ || opened_uri_ != artifact_uri) {
      session_ = s3::open_session(options_of(artifact_uri, env_));
      opened_uri_ = artifact_uri;
    }
    s3::UploadState state;
    s3::UploadOptions options;
    options.cancelled = &cancelled_;
    s3::upload_file(session_, file, name, state, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    throw Error(ErrorKind::comm, "mlflow", error.fact(), error.hint());
  }
}

}  // namespace wmtp::tracking::mlflow
