#include "wmtp/s3/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "wmtp/core/error.h"
#include "wmtp/s3/digest.h"

namespace wmtp::s3 {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";
constexpr std::size_t kDayBytes = 8;  // of the date: 20130524

std::string lower_name(std::string_view name) {
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

bool is_blank_character(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Without blanks at both ends; several in a row, folded lines among them, are one.
std::string trimmed_value(std::string_view value) {
  std::string text;
  for (const char c : value)
    if (!is_blank_character(c))
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

Secret digest_secret(const Sha256Digest& digest) {
  return Secret({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Secret signing_key(const Secret& secret_key, std::string_view day, const SigningScope& scope) {
  std::string first = "AWS4";
  first.reserve(first.size() + secret_key.reveal().size());  // one place to wipe
  first += secret_key.reveal();
  Secret key = digest_secret(hmac_sha256(first, day));
  wipe(first);
  for (const std::string_view part :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request")})
    key = digest_secret(hmac_sha256(key.reveal(), part));
  return key;
}

std::string scope_text(std::string_view date, const SigningScope& scope) {
  return fmt::format("{}/{}/{}/aws4_request", date.substr(0, kDayBytes), scope.region,
                     scope.service);
}

}  // namespace

std::string amz_date(std::int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

Signature compute_signature(const SigningInput& input, const Credentials& credentials,
                            const SigningScope& scope, std::int64_t seconds) {
  std::map<std::string, std::string> headers;
  for (const auto& [name, value] : input.headers) {
    const auto [place, is_new] = headers.emplace(lower_name(name), trimmed_value(value));
    if (!is_new) place->second += "," + trimmed_value(value);
  }
  WMTP_CHECK(headers.contains("host"), "a signature without the host");
  Signature made;
  std::string header_lines;
  for (const auto& [name, value] : headers) {
    header_lines += fmt::format("{}:{}\n", name, value);
    made.signed_headers += (made.signed_headers.empty() ? "" : ";") + name;
  }
  made.canonical_request =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", input.method, input.path, input.query, header_lines,
                  made.signed_headers, input.payload_hash);
  const std::string date = amz_date(seconds);
  made.string_to_sign = fmt::format("{}\n{}\n{}\n{}", kAlgorithm, date, scope_text(date, scope),
                                    sha256_hex(made.canonical_request));
  const Secret key =
      signing_key(credentials.secret_key, std::string_view(date).substr(0, kDayBytes), scope);
  made.hex = to_hex(hmac_sha256(key.reveal(), made.string_to_sign));
  return made;
}

void sign(http::Request& request, const Credentials& credentials, const SigningScope& scope,
          std::string_view payload_hash, std::int64_t seconds) {
  WMTP_CHECK(payload_hash != kUnsignedPayload || request.url.is_tls(),
             "an unsigned payload without TLS, where anyone could change it");
  const std::string date = amz_date(seconds);
  request.headers.remove("Authorization");
  request.headers.remove("X-Amz-Security-Token");
  request.headers.set("X-Amz-Date", date);
  request.headers.set("X-Amz-Content-SHA256", payload_hash);
  if (!credentials.session_token.empty())
    request.headers.set("X-Amz-Security-Token", credentials.session_token.reveal());
  SigningInput input{request.method, request.url.path, request.url.query, request.headers.fields(),
                     std::string(payload_hash)};
  input.headers.emplace_back("host", request.url.authority());
  const Signature made = compute_signature(input, credentials, scope, seconds);
  request.headers.set("Authorization",
                      fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm,
                                  credentials.access_key.reveal(), scope_text(date, scope),
                                  made.signed_headers, made.hex));
}

}  // namespace wmtp::s3
