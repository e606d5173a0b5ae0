// The client of src/wmtp/s3 for the Python tests. No LibTorch.
//   stdin: one JSON object per line, stdout: what came of it, per line. "options" makes a new
//   session. stderr is the log, at debug level. Variables come from the environment.
// {"op": "put" | "get" | ..., "name", "body" (base64), "path", ...}: see kOperations.
#include <fmt/format.h>
#include <openssl/evp.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>

#include "wmtp/core/json.h"
#include "wmtp/core/log.h"
#include "wmtp/s3/digest.h"
#include "wmtp/s3/download.h"
#include "wmtp/s3/files/s3_file_system.h"
#include "wmtp/s3/keys/temporary_keys.h"
#include "wmtp/s3/sigv4.h"
#include "wmtp/s3/upload.h"

namespace wmtp::s3 {
namespace {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string decoded(const std::string& text) {
  std::string bytes(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  bytes.resize(static_cast<std::size_t>(std::max(size, 0)));
  for (std::size_t at = text.size(); at > 0 && text[at - 1] == '='; --at) bytes.pop_back();
  return bytes;
}
std::string encoded(std::string_view bytes) {
  return base64({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

Options options_from(const Json& given) {
  Options options;
  options.http.env = environment;
  options.bucket = given.value("bucket", "");
  options.prefix = given.value("prefix", "");
  options.endpoint = given.value("endpoint", "");
  options.region = given.value("region", "");
  options.profile = given.value("profile", "");
  options.addressing =
      given.contains("path_style")
          ? given["path_style"].get<bool>() ? Addressing::path : Addressing::virtual_host
          : Addressing::automatic;
  options.part_bytes = given.value("part_bytes", options.part_bytes);
  options.concurrency = given.value("concurrency", options.concurrency);
  options.retries = given.value("retries", options.retries);
  options.first_wait = std::chrono::milliseconds(given.value("first_wait_ms", 500));
  const std::string checksum = given.value("checksum", "md5");
  if (checksum == "crc32c") options.checksum = Checksum::crc32c;
  if (checksum == "none") options.checksum = Checksum::none;
  options.allow_http = given.value("allow_http", false);
  options.http.ca_file = given.value("ca_file", "");
  options.http.stall_limit = std::chrono::milliseconds(given.value("stall_ms", 30'000));
  return options;
}

Json json_of(const ObjectFacts& facts) {
  return {{"bytes", facts.bytes}, {"etag", facts.etag}};
}

Json json_of(const UploadState& state) {
  Json parts = Json::object();
  for (const auto& [number, part] : state.parts)
    parts[std::to_string(number)] = {part.etag, part.md5_hex};
  return {{"upload_id", state.upload_id}, {"part_bytes", state.part_bytes}, {"parts", parts}};
}

UploadState state_from(const Json& given) {
  UploadState state{given.value("upload_id", ""), given.value("part_bytes", std::uint64_t{0}), {}};
  const Json parts = given.value("parts", Json::object());
  for (const auto& [number, part] : parts.items())
    state.parts[std::stoi(number)] = {part.at(0).get<std::string>(), part.at(1).get<std::string>()};
  return state;
}

// One line of input with what it works on.
struct Job {
  const Json& given;
  std::shared_ptr<Session>& session;

  Bucket bucket() const { return Bucket(session); }
  std::string name() const { return decoded(given.at("name").get<std::string>()); }
};
using Operation = Json (*)(const Job&);

Json sign_one(const Job& job) {
  http::Request request;
  request.method = job.given.at("method").get<std::string>();
  request.url = http::parse_url(job.given.at("url").get<std::string>(), "url");
  request.url.path =
      http::percent_encode(decoded(job.given.at("path").get<std::string>()), http::Slash::kept);
  std::vector<std::pair<std::string, std::string>> query;
  for (const Json& pair : job.given.at("query"))
    query.emplace_back(decoded(pair.at(0).get<std::string>()),
                       decoded(pair.at(1).get<std::string>()));
  request.url.query = http::query_text(query);
  for (const Json& field : job.given.at("headers"))
    request.headers.add(field.at(0).get<std::string>(), field.at(1).get<std::string>());
  const Json& keys = job.given.at("keys");
  const Credentials credentials{.access_key = Secret(keys.at(0).get<std::string>()),
                                .secret_key = Secret(keys.at(1).get<std::string>()),
                                .session_token = Secret(keys.at(2).get<std::string>()),
                                .expires = std::nullopt,
                                .source = "test"};
  sign(request, credentials, {job.given.at("region").get<std::string>()},
       job.given.at("payload").get<std::string>(), job.given.at("seconds").get<std::int64_t>());
  return {{"authorization", request.headers.find("Authorization").value_or("")},
          {"target", request.url.target()}};
}

Json show_keys(const Job& job) {
  const auto keys = job.session->credentials().get();
  Json shown = {{"access_key", keys->access_key.reveal()},
                {"secret_key", keys->secret_key.reveal()},
                {"token", keys->session_token.reveal()},
                {"source", keys->source}};
  if (keys->expires)
    shown["seconds_left"] = std::chrono::duration<double>(*keys->expires - Clock::now()).count();
  shown["printed"] = fmt::format("{}", keys->secret_key);
  return shown;
}

Json refuse_keys(const Job& job) {
  const auto seen = job.session->credentials().get();
  return {{"others", job.session->credentials().renew_after_refusal(*seen)}};
}

Json show_location(const Job& job) {
  const Location& location = job.session->location();
  return {{"url", location.url_of(location.key_of(job.name())).text()},
          {"region", location.region}};
}

Json shift_clock(const Job& job) {
  job.session->follow_server(wall_seconds() + job.given.at("seconds").get<std::int64_t>());
  return Json::object();
}

Json head_one(const Job& job) {
  const auto facts = job.bucket().head(job.name());
  return {{"facts", facts ? json_of(*facts) : Json()}};
}
Json get_one(const Job& job) {
  if (!job.given.contains("range")) return {{"body", encoded(job.bucket().get(job.name()))}};
  const http::ByteRange range{job.given["range"].at(0), job.given["range"].at(1)};
  return {{"body", encoded(job.bucket().get_range(job.name(), range))}};
}
Json put_one(const Job& job) {
  const std::string body = decoded(job.given.at("body").get<std::string>());
  return {
      {"etag", job.bucket().put(job.name(), payload_of(body, job.session->options().checksum))}};
}
Json remove_one(const Job& job) {
  job.bucket().remove(job.name());
  return Json::object();
}
Json list_page(const Job& job) {
  const ObjectPage page =
      job.bucket().list(job.name(), job.given.value("delimiter", ""), job.given.value("token", ""),
                        job.given.value("page_size", 1000));
  Json objects = Json::array(), prefixes = Json::array();
  for (const ObjectEntry& object : page.objects)
    objects.push_back(
        {encoded(object.key), object.bytes, object.etag, object.modified.value_or(0)});
  for (const std::string& prefix : page.prefixes) prefixes.push_back(encoded(prefix));
  return {{"objects", objects}, {"prefixes", prefixes}, {"next", page.next}};
}
Json count_all(const Job& job) {
  return {{"count", job.bucket().list_all(job.name()).size()}};
}
Json list_uploads(const Job& job) {
  Json uploads = Json::array();
  for (const UploadEntry& upload : job.bucket().list_uploads(job.name()))
    uploads.push_back({encoded(upload.key), upload.upload_id, upload.initiated.value_or(0)});
  return {{"uploads", uploads}};
}
Json create_one(const Job& job) {
  return {{"upload_id", job.bucket().create_upload(job.name())}};
}
Json abort_one(const Job& job) {
  job.bucket().abort_upload(job.name(), job.given.at("upload_id").get<std::string>());
  return Json::object();
}

Json upload_one(const Job& job) {
  UploadState state = state_from(job.given.value("state", Json::object()));
  int num_changes = 0;
  Json last;
  const UploadOptions options{[&](const UploadState& now) {
                                ++num_changes;
                                last = json_of(now);
                              },
                              nullptr};
  Json reply;
  try {
    const UploadResult result = upload_file(job.session, job.given.at("path").get<std::string>(),
                                            job.name(), state, options);
    reply = {{"bytes", result.bytes},
             {"etag", result.etag},
             {"sent", result.num_sent_parts},
             {"reused", result.num_reused_parts}};
  } catch (const Error& error) {
    reply = {{"text", error.what()}, {"exit", exit_code(error.kind())}};
  }
  reply["state"] = json_of(state);
  reply["last"] = last;
  reply["changes"] = num_changes;
  return reply;
}

Json download_one(const Job& job) {
  const DownloadResult result =
      download_file(job.session, job.name(), job.given.at("path").get<std::string>(),
                    {.check_etag = job.given.value("check_etag", true)});
  return {{"bytes", result.bytes}, {"etag", result.etag}, {"verified", result.is_verified}};
}

// The bucket of the session, which has no prefix, as files; an opened one stays open.
S3FileSystem& files_of(const Job& job) {
  static std::shared_ptr<Session> session;
  static std::unique_ptr<S3FileSystem> files;
  if (session != job.session) files = std::make_unique<S3FileSystem>(session = job.session);
  return *files;
}
std::unique_ptr<storage::InputFile>& opened_file() {
  static std::unique_ptr<storage::InputFile> file;
  return file;
}

Json list_files(const Job& job) {
  Json entries = Json::array();
  for (const storage::FolderEntry& entry : files_of(job).list(job.name()))
    entries.push_back({entry.name, static_cast<int>(entry.kind)});
  return {{"entries", entries}};
}
Json show_status(const Job& job) {
  const storage::FileStatus status = files_of(job).status(job.name());
  return {{"kind", static_cast<int>(status.kind)}, {"bytes", status.bytes}};
}
Json open_file(const Job& job) {
  const std::filesystem::path path = job.name();
  opened_file() = files_of(job).open(path.parent_path(), path.filename().string(), "test");
  return {{"bytes", opened_file()->size()}};
}
Json read_opened(const Job& job) {
  std::string bytes(job.given["range"].at(1).get<std::size_t>(), '\0');
  opened_file()->read(job.given["range"].at(0).get<std::uint64_t>(),
                      std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return {{"body", encoded(bytes)}};
}

const std::map<std::string, Operation> kOperations = {{"sign", sign_one},
                                                      {"keys", show_keys},
                                                      {"refuse_keys", refuse_keys},
                                                      {"location", show_location},
                                                      {"shift_clock", shift_clock},
                                                      {"head", head_one},
                                                      {"get", get_one},
                                                      {"put", put_one},
                                                      {"remove", remove_one},
                                                      {"list", list_page},
                                                      {"count", count_all},
                                                      {"uploads", list_uploads},
                                                      {"create", create_one},
                                                      {"abort", abort_one},
                                                      {"upload", upload_one},
                                                      {"download", download_one},
                                                      {"list_files", list_files},
                                                      {"status", show_status},
                                                      {"open", open_file},
                                                      {"read", read_opened}};

Json reply_to(const Json& job, std::shared_ptr<Session>& session) {
  try {
    if (job.contains("options")) session = open_session(options_from(job["options"]));
    if (!job.contains("op")) return Json::object();
    return kOperations.at(job["op"].get<std::string>())({job, session});
  } catch (const S3Error& error) {
    return {{"text", error.what()},
            {"exit", exit_code(error.kind())},
            {"problem", name_of(error.problem())},
            {"code", error.code()}};
  } catch (const storage::FileError& error) {
    return {{"text", error.what()}, {"exit", exit_code(error.kind())}, {"errno", error.code()}};
  } catch (const Error& error) {
    return {{"text", error.what()}, {"exit", exit_code(error.kind())}};
  }
}

}  // namespace
}  // namespace wmtp::s3

int main() {
  using namespace wmtp;
  log::configure({.level = log::Level::debug});
  std::signal(SIGPIPE, SIG_IGN);
  std::shared_ptr<s3::Session> session;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << s3::reply_to(Json::parse(line), session)
                     .dump(-1, ' ', true, Json::error_handler_t::replace)
              << std::endl;
  return 0;
}
