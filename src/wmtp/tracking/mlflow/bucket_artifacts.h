// Artifacts of runs whose store is a bucket ("s3://bucket/..."): MLflow's clients write to it
// themselves, and so does this.
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/http/ca_bundle.h"

namespace wmtp::s3 {
class Session;
}

namespace wmtp::tracking::mlflow {

class BucketArtifacts {
 public:
  // Keys, region and endpoint come from the environment, as MLflow's clients have them:
  // MLFLOW_S3_ENDPOINT_URL first, then those of AWS. BORROWS cancelled.
  BucketArtifacts(http::Environment env, const std::atomic<bool>& cancelled);

  static bool takes(std::string_view artifact_uri);

  // BLOCKS. The file as `name` below the URI. Whatever S3 refuses is ErrorKind::comm: the store is
  // not the tracking server, and who mends keys or bucket wants the file sent.
  void upload(const std::string& artifact_uri, std::string_view name,
              const std::filesystem::path& file);

 private:
  http::Environment env_;
  const std::atomic<bool>& cancelled_;
  std::string opened_uri_;
  std::shared_ptr<s3::Session> session_;
};

}  // namespace wmtp::tracking::mlflow
