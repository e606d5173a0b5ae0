// What S3 refuses, as types: callers decide by them, people read the hint.
#pragma once
#include <string>
#include <string_view>

#include "wmtp/core/error.h"
#include "wmtp/http/message.h"

namespace wmtp::s3 {

enum class Problem {
  not_found,     // no such object
  no_bucket,     // no such bucket
  no_upload,     // the multipart upload is over: completed, aborted or never begun
  denied,        // the keys are right, and may not do this
  bad_keys,      // unknown keys, a wrong secret, or expired ones
  skewed_clock,  // the server's time and ours differ, even after a second try
  wrong_region,  // the bucket is elsewhere; the hint names where
  bad_digest,    // what arrived is not what was sent
  busy,          // 429 or 5xx, after all tries
  refused,       // any other answer
};
std::string_view name_of(Problem problem);

// Kinds: busy is comm; not_found, no_upload and bad_digest are io; the others config.
class S3Error : public Error {
 public:
  S3Error(Problem problem, int status, std::string_view code, std::string_view fact,
          std::string_view hint, std::source_location where = std::source_location::current());
  Problem problem() const { return problem_; }
  int status() const { return status_; }
  const std::string& code() const { return code_; }  // of the server: "NoSuchKey"; may be empty

 private:
  Problem problem_;
  int status_;
  std::string code_;
};

// The code of an Error document in the body, or "".
std::string error_code(const http::Response& response);

// The error that an answer means. `action` says what was tried ("PUT s3://bucket/key"), `region`
// what was signed for.
S3Error error_of(const http::Response& response, std::string_view action, std::string_view region);

}  // namespace wmtp::s3
