// Files for the artifact store behind a tracking server.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "wmtp/tracking/mlflow/rest/connection.h"

namespace wmtp::tracking::mlflow {

struct UploadLimits {
  std::uint64_t multipart_from = 500'000'000;  // bytes of a file
  std::uint64_t part_bytes = 10'000'000;       // the last part may have fewer
  std::uint64_t max_parts = 10'000;            // what S3 takes; parts of larger files grow
};

// What an artifact URI begins with ("mlflow-artifacts", "s3"); "file" for a path. Escaped.
std::string artifact_scheme(std::string_view artifact_uri);

// The folder of the store, decoded, that a "mlflow-artifacts:/..." URI names. Refused (status 0)
// for other schemes and for a store on another host than `address`, Error data where it leads out.
std::string artifact_folder(std::string_view artifact_uri, const http::Url& address);

std::string_view content_type(std::string_view name);

// BLOCKS. The file as `name` below the artifact URI, streamed from disk: by one PUT, or in parts
// where it is large and the server can. Error io where the file cannot be read or shrinks
// meanwhile. REQUIRES a name without "..", "." and empty parts.
void upload_artifact(Connection& connection, std::string_view artifact_uri, std::string_view name,
                     const std::filesystem::path& file, const UploadLimits& limits = {});

}  // namespace wmtp::tracking::mlflow
