#include "wmtp/s3/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/printable.h"
#include "wmtp/http/retry.h"
#include "wmtp/s3/answers.h"

namespace wmtp::s3 {
namespace {

ErrorKind kind_of(Problem problem) {
  switch (problem) {
    case Problem::busy:
      return ErrorKind::comm;
    case Problem::not_found:
    case Problem::no_upload:
    case Problem::bad_digest:
      return ErrorKind::io;
    default:
      return ErrorKind::config;
  }
}

struct CodeMeaning {
  std::string_view code;
  Problem problem;
};
constexpr std::array kCodes = {
    CodeMeaning{"NoSuchKey", Problem::not_found},
    CodeMeaning{"NoSuchBucket", Problem::no_bucket},
    CodeMeaning{"NoSuchUpload", Problem::no_upload},
    CodeMeaning{"AccessDenied", Problem::denied},
    CodeMeaning{"AllAccessDisabled", Problem::denied},
    CodeMeaning{"InvalidAccessKeyId", Problem::bad_keys},
    CodeMeaning{"SignatureDoesNotMatch", Problem::bad_keys},
    CodeMeaning{"ExpiredToken", Problem::bad_keys},
    CodeMeaning{"InvalidToken", Problem::bad_keys},
    CodeMeaning{"TokenRefreshRequired", Problem::bad_keys},
    CodeMeaning{"RequestTimeTooSkewed", Problem::skewed_clock},
    CodeMeaning{"RequestExpired", Problem::skewed_clock},
    CodeMeaning{"PermanentRedirect", Problem::wrong_region},
    CodeMeaning{"TemporaryRedirect", Problem::wrong_region},
    CodeMeaning{"AuthorizationHeaderMalformed", Problem::wrong_region},
    CodeMeaning{"IllegalLocationConstraintException", Problem::wrong_region},
    CodeMeaning{"BadDigest", Problem::bad_digest},
    CodeMeaning{"InvalidDigest", Problem::bad_digest},
    CodeMeaning{"XAmzContentSHA256Mismatch", Problem::bad_digest},
    CodeMeaning{"InternalError", Problem::busy},
    CodeMeaning{"SlowDown", Problem::busy},
    CodeMeaning{"ServiceUnavailable", Problem::busy},
    CodeMeaning{"RequestTimeout", Problem::busy},
};

// Answers to HEAD have no document: then the status has to do.
Problem problem_of(int status, std::string_view code, std::string_view region_given,
                   std::string_view region) {
  const auto* found = std::ranges::find(kCodes, code, &CodeMeaning::code);
  const bool is_elsewhere = !region_given.empty() && region_given != region;
  if (found != kCodes.end()) {
    // AWS calls any fault of the header by this name, the region is one of them.
    if (code == "AuthorizationHeaderMalformed" && !is_elsewhere) return Problem::bad_keys;
    return found->problem;
  }
  if (status == 301 || status == 307) return Problem::wrong_region;
  if (is_elsewhere && (status == 400 || status == 403)) return Problem::wrong_region;
  if (status == 404) return Problem::not_found;
  if (status == 401 || status == 403) return Problem::denied;
  const bool is_busy = status != 501 && http::is_worth_retry(status, /*every_5xx=*/true);
  return is_busy ? Problem::busy : Problem::refused;
}

std::string hint_of(Problem problem, std::string_view region_given) {
  switch (problem) {
    case Problem::not_found:
      return "is the key right, and has the upload ended?";
    case Problem::no_bucket:
      return "is storage.s3.bucket right, and the endpoint that of its server?";
    case Problem::no_upload:
      return "the upload was completed or aborted; begin a new one";
    case Problem::denied:
      return "may these keys do this (s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucket, "
             "s3:AbortMultipartUpload, s3:ListMultipartUploadParts)?";
    case Problem::bad_keys:
      return "are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN (or the profile) "
             "those of this server, and still good?";
    case Problem::skewed_clock:
      return "set the clock of this machine, or look for a proxy that changes Date";
    case Problem::wrong_region:
      return region_given.empty()
                 ? "set storage.s3.region to the bucket's own"
                 : fmt::format("set storage.s3.region: {}", printable(region_given));
    case Problem::bad_digest:
      return "was the file changed while it was being sent? otherwise the network damages data";
    case Problem::busy:
      return "the server is overloaded or broken; try again later";
    case Problem::refused:
      return "does the server support this (storage.s3.checksum: md5, storage.s3.path_style)?";
  }
  return "";
}

}  // namespace

std::string_view name_of(Problem problem) {
  constexpr std::array<std::string_view, 10> kNames = {
      "not_found",    "no_bucket",    "no_upload",  "denied", "bad_keys",
      "skewed_clock", "wrong_region", "bad_digest", "busy",   "refused"};
  return kNames[static_cast<std::size_t>(problem)];
}

S3Error::S3Error(Problem problem, int status, std::string_view code, std::string_view fact,
                 std::string_view hint, std::source_location where)
    : Error(kind_of(problem), "s3", fact, hint, where),
      problem_(problem),
      status_(status),
      code_(code) {}

std::string error_code(const http::Response& response) {
  const auto document = parse_error(response.body);
  return document ? document->code : "";
}

S3Error error_of(const http::Response& response, std::string_view action, std::string_view region) {
  const auto document = parse_error(response.body).value_or(ErrorDocument{});
  std::string region_given = document.region;
  if (region_given.empty())
    region_given = response.headers.find("x-amz-bucket-region").value_or("");
  const Problem problem = problem_of(response.status, document.code, region_given, region);
  std::string said = document.code;
  if (!document.message.empty()) said += (said.empty() ? "" : ": ") + document.message;
  if (problem == Problem::wrong_region) said += fmt::format(" (asked in {})", region);
  return {problem, response.status, document.code,
          fmt::format("{}: the server answers {}{}{}", action, response.status,
                      said.empty() ? "" : ", ", printable(said)),
          hint_of(problem, region_given)};
}

}  // namespace wmtp::s3
