#include "wmtp/s3/keys/temporary_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/http/http_date.h"
#include "wmtp/http/retry.h"
#include "wmtp/s3/iso_time.h"

namespace wmtp::s3 {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxDocumentBytes = std::size_t{64} << 10;
// A year: keys that are said to live longer are renewed as if they did not.
constexpr std::int64_t kLongestLife = 365LL * 24 * 3600;

[[noreturn]] void refuse_document(std::string_view source, std::string_view fact) {
  throw Error(ErrorKind::data, "s3", fmt::format("{}: {}", source, fact),
              "is this the service that was meant?");
}

}  // namespace

http::ClientOptions service_options(http::ClientOptions options) {
  options.connect_limit = std::min<std::chrono::milliseconds>(options.connect_limit, 2s);
  options.total_limit = 10s;
  options.stall_limit = 5s;
  return options;
}

http::Response ask_service(http::Client& client, const http::Request& request) {
  http::RetryPolicy policy;
  policy.max_tries = 3;
  policy.base = 200ms;
  policy.longest_asked = 5s;
  policy.every_5xx = true;
  return http::send_with_retries(client, request, policy);
}

Clock::time_point end_of_keys(std::string_view expiration, const http::Response& response,
                              std::string_view source) {
  const auto end = parse_iso_time(expiration);
  if (!end) refuse_document(source, "the keys have an Expiration that is no time");
  const auto date = response.headers.find("Date");
  const auto now = date ? http::parse_http_date(*date) : std::nullopt;
  const std::int64_t left = *end - now.value_or(wall_seconds());
  return Clock::now() + std::chrono::seconds(std::clamp(left, -kLongestLife, kLongestLife));
}

Credentials keys_from_json(const http::Response& response, std::string_view source) {
  if (response.status != 200)
    throw Error(response.status >= 500 ? ErrorKind::comm : ErrorKind::config, "s3",
                fmt::format("{} answers {} where keys were asked for", source, response.status),
                "is a role attached, and may this process use it?");
  Json document;
  try {
    document = parse_json(response.body, source, {kMaxDocumentBytes, 4});
  } catch (const Error&) {
    refuse_document(source, "the answer is no JSON document");  // whose error would quote it
  }
  if (!document.is_object()) refuse_document(source, "the answer is no JSON object");
  const auto text = [&](const char* key) -> std::string {
    const auto found = document.find(key);
    return found != document.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string code = text("Code");
  if (!code.empty() && code != "Success")
    refuse_document(source, "the answer says that it has no keys (its Code is not Success)");
  Credentials keys{.access_key = Secret(text("AccessKeyId")),
                   .secret_key = Secret(text("SecretAccessKey")),
                   .session_token = Secret(text("Token")),
                   .expires = std::nullopt,
                   .source = std::string(source)};
  if (keys.access_key.empty() || keys.secret_key.empty())
    refuse_document(source, "the answer has no AccessKeyId or no SecretAccessKey");
  if (const std::string end = text("Expiration"); !end.empty())
    keys.expires = end_of_keys(end, response, source);
  return keys;
}

std::int64_t wall_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace wmtp::s3
