#include "wmtp/s3/bucket.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/http/http_date.h"
#include "wmtp/http/retry.h"
#include "wmtp/s3/digest.h"
#include "wmtp/s3/sigv4.h"

namespace wmtp::s3 {
namespace {

// Servers refuse signatures that are 15 minutes old or ahead.
constexpr std::int64_t kSkewSeconds = 600;

void redact(std::string& text, const Secret& secret) {
  const std::string_view hidden = secret.reveal();
  if (hidden.empty()) return;
  for (std::size_t at = text.find(hidden); at != text.npos; at = text.find(hidden, at + 3))
    text.replace(at, hidden.size(), "***");
}

ObjectFacts facts_of(const http::Headers& headers, std::string_view action) {
  ObjectFacts facts;
  const auto length = http::parse_decimal(headers.find("Content-Length").value_or(""));
  if (!length)
    throw Error(ErrorKind::data, "s3", fmt::format("{}: the answer has no size", action));
  facts.bytes = *length;
  facts.etag = without_quotes(headers.find("ETag").value_or(""));
  const std::string encryption = headers.find("x-amz-server-side-encryption").value_or("");
  facts.has_opaque_etag = encryption.starts_with("aws:kms") ||
                          headers.has("x-amz-server-side-encryption-customer-algorithm");
  return facts;
}

}  // namespace

Payload payload_of(std::string_view bytes, Checksum checksum) {
  Payload payload{.bytes = bytes,
                  .source = nullptr,
                  .sha256_hex = sha256_hex(bytes),
                  .content_md5 = {},
                  .crc32c = {}};
  if (checksum == Checksum::md5) payload.content_md5 = base64(md5(bytes));
  if (checksum == Checksum::crc32c) payload.crc32c = crc32c_base64(crc32c(bytes));
  return payload;
}

Bucket::Bucket(std::shared_ptr<Session> session, const std::atomic<bool>* cancelled)
    : session_(std::move(session)),
      cancelled_(cancelled),
      client_(session_->options().http),
      seed_(session_->next_seed()) {}

std::string Bucket::shown(const Call& call) const {
  return fmt::format("{} {}", call.method, session_->location().shown(call.key));
}

S3Error Bucket::refusal(const http::Response& response, const Call& call) const {
  const S3Error error = error_of(response, shown(call), session_->location().region);
  std::string fact = error.fact();
  if (used_)
    for (const Secret* secret : {&used_->access_key, &used_->secret_key, &used_->session_token})
      redact(fact, *secret);
  return {error.problem(), error.status(), error.code(), fact, error.hint()};
}

http::Response Bucket::send(const Call& call) {
  http::Response response = exchange(call);
  if (!response.is_success()) throw refusal(response, call);
  return response;
}

http::Response Bucket::exchange(const Call& call) {
  return retried(call, [&] { return send_once(call); });
}

http::Response Bucket::retried(const Call& call, const std::function<http::Response()>& attempt) {
  http::RetryPolicy policy;
  policy.max_tries = session_->options().retries + 1;
  policy.base = session_->options().first_wait;
  policy.seed = seed_;
  return http::with_retries(attempt, shown(call), policy, cancelled_);
}

http::Request Bucket::request_of(const Call& call) const {
  http::Request request;
  request.method = call.method;
  request.url = session_->location().url_of(call.key, call.query);
  request.headers = call.headers;
  if (!call.payload.content_md5.empty())
    request.headers.add("Content-MD5", call.payload.content_md5);
  if (!call.payload.crc32c.empty())
    request.headers.add("x-amz-checksum-crc32c", call.payload.crc32c);
  request.body = call.payload.bytes;
  request.source = call.payload.source;
  request.range = call.range;
  request.sink = call.sink;
  request.max_body_bytes = call.max_body_bytes;
  request.cancelled = cancelled_;
  return request;
}

// Each try is signed anew: waits between them may be longer than a signature lives.
http::Response Bucket::send_once(const Call& call) {
  http::Request request = request_of(call);
  std::string hash = call.payload.sha256_hex;
  if (hash.empty())
    hash = call.payload.source ? std::string(kUnsignedPayload) : sha256_hex(request.body);
  for (bool has_followed = false, has_renewed = false;;) {
    used_ = session_->credentials().get();
    const std::int64_t signed_at = session_->now();
    sign(request, *used_, {session_->location().region}, hash, signed_at);
    http::Response response = client_.send(request);
    if (response.status != 400 && response.status != 403) return response;
    const std::string code = error_code(response);
    if (!has_followed && follow_clock(response, code, signed_at)) {
      has_followed = true;
    } else if (!has_renewed && renew_keys(response, code, *used_)) {
      has_renewed = true;
    } else {
      return response;
    }
  }
}

// Answers to HEAD have no code: then the difference tells.
bool Bucket::follow_clock(const http::Response& response, std::string_view code,
                          std::int64_t signed_at) {
  const auto date = http::parse_http_date(response.headers.find("Date").value_or(""));
  if (!date) return false;
  const bool is_named = code == "RequestTimeTooSkewed" || code == "RequestExpired";
  const bool is_far = *date > signed_at + kSkewSeconds || *date < signed_at - kSkewSeconds;
  if (!is_named && !(code.empty() && is_far)) return false;
  session_->follow_server(*date);
  return true;
}

bool Bucket::renew_keys(const http::Response& response, std::string_view code,
                        const Credentials& used) {
  const bool is_token = code == "ExpiredToken" || code == "InvalidToken" ||
                        code == "TokenRefreshRequired" ||
                        (code.empty() && !used.session_token.empty());
  if (response.status != 403 && !is_token) return false;
  return session_->credentials().renew_after_refusal(used);
}

std::optional<ObjectFacts> Bucket::head(std::string_view name) {
  const Call call{.method = "HEAD", .key = session_->location().key_of(name)};
  const http::Response response = exchange(call);
  if (response.status == 404) return std::nullopt;
  if (!response.is_success()) throw refusal(response, call);
  return facts_of(response.headers, shown(call));
}

std::string Bucket::get(std::string_view name, std::uint64_t max_bytes) {
  return send({.method = "GET",
               .key = session_->location().key_of(name),
               .max_body_bytes = max_bytes})
      .body;
}

std::string Bucket::get_range(std::string_view name, http::ByteRange range) {
  return send({.method = "GET",
               .key = session_->location().key_of(name),
               .range = range,
               .max_body_bytes = std::max(range.length, http::kMaxBodyBytes)})
      .body;
}

void Bucket::get_range(std::string_view name, http::ByteRange range, http::BodySink& sink) {
  send({.method = "GET", .key = session_->location().key_of(name), .range = range, .sink = &sink});
}

std::string Bucket::put(std::string_view name, const Payload& payload) {
  const http::Response response =
      send({.method = "PUT", .key = session_->location().key_of(name), .payload = payload});
  return without_quotes(response.headers.find("ETag").value_or(""));
}

void Bucket::remove(std::string_view name) {
  try {
    send({.method = "DELETE", .key = session_->location().key_of(name)});
  } catch (const S3Error& error) {
    if (error.problem() != Problem::not_found) throw;
  }
}

}  // namespace wmtp::s3
