#include "wmtp/tracking/mlflow/rest/artifacts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/log.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/mlflow/rest/answers.h"
#include "wmtp/tracking/mlflow/rest/file_source.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::string_view kProxyScheme = "mlflow-artifacts";

bool leads_out(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment.empty() || segment == "." || segment == "..") return true;
    begin = end + 1;
  }
  return false;
}

// One file on its way.
struct Upload {
  Connection& connection;
  std::string folder, name;  // of the store, both decoded
  FileSource source;
  const UploadLimits& limits;

  void put();
  // False: the server cannot do this here, and nothing has happened.
  bool put_in_parts();
  http::Response put_part(const PartTarget& target, std::size_t index, std::uint64_t part_bytes);
  OrderedJson put_parts(const MultipartUpload& upload, std::uint64_t part_bytes);
  void abort(const MultipartUpload& upload) noexcept;
  void expect_done(const http::Request& request, const http::Response& response) const;
  http::Request multipart_request(std::string_view verb, OrderedJson body) const;
};

void Upload::put() {
  source.select(0, source.file_bytes());
  http::Request request = connection.request(
      "PUT", fmt::format("/api/2.0/mlflow-artifacts/artifacts/{}{}{}",
                         http::percent_encode(folder, http::Slash::kept), folder.empty() ? "" : "/",
                         http::percent_encode(name, http::Slash::kept)));
  request.headers.add("Content-Type", content_type(name));
  request.source = &source;
  expect_done(request, connection.upload(request));
}

// Servers say nothing, or "{}"; a page to log in with status 200 is no success.
void Upload::expect_done(const http::Request& request, const http::Response& response) const {
  connection.check(request, response);
  if (!response.body.empty()) connection.object_of(request, response);
}

http::Request Upload::multipart_request(std::string_view verb, OrderedJson body) const {
  const std::size_t slash = name.rfind('/');
  std::string place = folder;
  if (slash != name.npos) place += "/" + name.substr(0, slash);
  body["path"] = slash == name.npos ? name : name.substr(slash + 1);
  return connection.json_request(fmt::format("mlflow-artifacts/mpu/{}/{}", verb,
                                             http::percent_encode(place, http::Slash::kept)),
                                 body);
}

bool Upload::put_in_parts() {
  const std::uint64_t size = source.file_bytes();
  const std::uint64_t part_bytes =
      std::max(limits.part_bytes, (size + limits.max_parts - 1) / limits.max_parts);
  const std::uint64_t num_parts = (size + part_bytes - 1) / part_bytes;
  const http::Request create = multipart_request("create", {{"num_parts", num_parts}});
  const http::Response response = connection.send(create);
  // Stores without parts answer 501; servers that know no such call 404 or 405; some stores 400.
  for (const int status : {400, 404, 405, 501})
    if (response.status == status) return false;
  const MultipartUpload upload =
      multipart_upload_of(connection.object_of(create, response), http::shown(create));
  try {
    if (upload.parts.size() != num_parts)
      throw Error(ErrorKind::data, "mlflow",
                  fmt::format("{}: {} parts were asked for and {} answered", http::shown(create),
                              num_parts, upload.parts.size()));
    const http::Request complete = multipart_request(
        "complete", {{"upload_id", upload.id}, {"parts", put_parts(upload, part_bytes)}});
    expect_done(complete, connection.upload(complete));
  } catch (...) {
    abort(upload);
    throw;
  }
  return true;
}

OrderedJson Upload::put_parts(const MultipartUpload& upload, std::uint64_t part_bytes) {
  OrderedJson done = OrderedJson::array();
  for (std::size_t i = 0; i < upload.parts.size(); ++i) {
    const http::Response response = put_part(upload.parts[i], i, part_bytes);
    done.push_back({{"part_number", i + 1},
                    {"etag", response.headers.find("ETag").value_or("")},
                    {"url", upload.parts[i].url}});
  }
  return done;
}

http::Response Upload::put_part(const PartTarget& target, std::size_t index,
                                std::uint64_t part_bytes) {
  const std::uint64_t first = index * part_bytes;
  source.select(first, std::min(part_bytes, source.file_bytes() - first));
  // The signature in the URL is all the store asks for; our credentials are none of its business.
  http::Request request = connection.request("PUT", "");
  request.headers = {};
  request.url = http::parse_url(target.url, "the address of a part, which the MLflow server gave,");
  if (connection.address().is_tls() && !request.url.is_tls())
    throw Error(
        ErrorKind::config, "mlflow",
        fmt::format("the MLflow server wants a part sent to {}, unencrypted", request.url.shown()),
        "give the server's artifact store an https address");
  for (const auto& [header, value] : target.headers) request.headers.add(header, value);
  request.source = &source;
  http::Response response = connection.send_elsewhere(request);
  connection.check(request, response);
  return response;
}

void Upload::abort(const MultipartUpload& upload) noexcept {
  try {
    http::Request request = multipart_request("abort", {{"upload_id", upload.id}});
    request.cancelled = nullptr;  // a few bytes, which free what the store holds
    connection.check(request, connection.send(request));
  } catch (const std::exception& error) {
    log::warn("mlflow", "parts of {} may be left in the artifact store: {}", name, error.what());
  }
}

}  // namespace

std::string artifact_scheme(std::string_view artifact_uri) {
  const std::size_t colon = artifact_uri.find(':');
  const bool has_scheme =
      colon != artifact_uri.npos && artifact_uri.substr(0, colon).find('/') == artifact_uri.npos;
  return has_scheme ? visible(artifact_uri.substr(0, colon)) : "file";
}

std::string artifact_folder(std::string_view artifact_uri, const http::Url& address) {
  const std::string scheme = artifact_scheme(artifact_uri);
  if (scheme != kProxyScheme)
    throw Refused(0, "",
                  fmt::format("the artifacts of this run lie in a store of the scheme \"{}\", "
                              "which is written to directly and not through the MLflow server",
                              scheme),
                  "start the server with --serve-artifacts and --artifacts-destination, and use a "
                  "new experiment: old ones keep their store");
  std::string_view path = artifact_uri.substr(kProxyScheme.size() + 1);
  if (path.starts_with("//")) {
    path.remove_prefix(2);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end > 0 && path.substr(0, end) != address.authority())
      throw Refused(0, "",
                    fmt::format("the artifacts of this run go to the server {}, not to {}",
                                visible(path.substr(0, end)), address.authority()),
                    "use an experiment whose artifacts go through its own server");
    path.remove_prefix(end);
  }
  std::string folder = http::percent_decode(path, "the artifact URI of the run");
  while (folder.starts_with('/')) folder.erase(0, 1);
  while (folder.ends_with('/')) folder.pop_back();
  if (!folder.empty() && leads_out(folder))
    throw Error(ErrorKind::data, "mlflow",
                "the artifact URI of the run has empty parts, \".\" or \"..\" in its path");
  return folder;
}

std::string_view content_type(std::string_view name) {
  using Type = std::pair<std::string_view, std::string_view>;
  constexpr std::array kTypes = {
      Type{".json", "application/json"}, Type{".html", "text/html"}, Type{".txt", "text/plain"},
      Type{".md", "text/plain"},         Type{".log", "text/plain"}, Type{".yaml", "text/plain"},
      Type{".yml", "text/plain"},        Type{".csv", "text/csv"},   Type{".jsonl", "text/plain"},
  };
  for (const auto& [ending, type] : kTypes)
    if (name.ends_with(ending)) return type;
  return "application/octet-stream";
}

void upload_artifact(Connection& connection, std::string_view artifact_uri, std::string_view name,
                     const std::filesystem::path& file, const UploadLimits& limits) {
  WMTP_CHECK(!leads_out(name), "an artifact's name that leads elsewhere");
  Upload upload{connection, artifact_folder(artifact_uri, connection.address()), std::string(name),
                FileSource(file), limits};
  const bool is_large = upload.source.file_bytes() >= limits.multipart_from;
  if (is_large && !upload.folder.empty() && upload.put_in_parts()) return;
  upload.put();
}

}  // namespace wmtp::tracking::mlflow
