// The calls of S3, one by one. Names are those below the session's prefix.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/http/client.h"
#include "wmtp/s3/answers.h"
#include "wmtp/s3/problem.h"
#include "wmtp/s3/session.h"

namespace wmtp::s3 {

struct ObjectFacts {
  std::uint64_t bytes = 0;
  std::string etag;  // without its quotes; "" where the server gives none
  // Encrypted with keys of the server: the ETag is then no MD5, whatever it looks like.
  bool has_opaque_etag = false;
};

// What goes up. `source` instead of `bytes` for files.
struct Payload {
  std::string_view bytes;
  http::BodySource* source = nullptr;  // BORROWS
  std::string sha256_hex;              // may be empty with TLS: sent unsigned
  std::string content_md5, crc32c;     // base64; empty: not sent
};
Payload payload_of(std::string_view bytes, Checksum checksum);

struct CompletedPart {
  int number = 0;
  std::string etag, crc32c;  // the latter where the upload has such checksums
};

// A connection of its own. THREADS: one at a time; others make a Bucket of the same session. All
// calls BLOCK, retry as the options say, renew keys once and follow a skewed clock once; what the
// server refuses is an S3Error, no answer at all an http::Failure.
class Bucket {
 public:
  // `cancelled` may be set by any thread: calls end with Failure cancelled. BORROWS it.
  explicit Bucket(std::shared_ptr<Session> session, const std::atomic<bool>* cancelled = nullptr);

  std::optional<ObjectFacts> head(std::string_view name);  // nothing: there is no such object
  // At most `max_bytes`; beyond: Failure too_large.
  std::string get(std::string_view name, std::uint64_t max_bytes = http::kMaxBodyBytes);
  // A part, all of it or an error; into memory, or into a sink, which begins anew with each try.
  std::string get_range(std::string_view name, http::ByteRange range);
  void get_range(std::string_view name, http::ByteRange range, http::BodySink& sink);
  std::string put(std::string_view name, const Payload& payload);  // the ETag, or ""
  void remove(std::string_view name);                              // what is not there is fine

  // Objects whose names begin with `name_prefix`, a page at a time in the order of their keys;
  // with "/" as delimiter those below a "folder" as one. `token` is a page's `next`. Keys of the
  // result are names.
  ObjectPage list(std::string_view name_prefix, std::string_view delimiter = {},
                  std::string_view token = {}, int page_size = 1000);
  // All of them. Error data where there are more than `most`.
  std::vector<ObjectEntry> list_all(std::string_view name_prefix, std::size_t most = 1'000'000);

  std::string create_upload(std::string_view name);  // the UploadId
  std::string put_part(std::string_view name, const std::string& upload_id, int number,
                       const Payload& payload);  // the ETag
  // A 200 with an Error inside is that error. No error: it is there, whose ETag is the result, or
  // "". An error says nothing for sure: decide by head().
  std::string complete_upload(std::string_view name, const std::string& upload_id,
                              const std::vector<CompletedPart>& parts);
  void abort_upload(std::string_view name, const std::string& upload_id);  // a gone one is fine
  std::optional<std::vector<PartEntry>> list_parts(std::string_view name,
                                                   const std::string& upload_id);  // nothing: gone
  std::vector<UploadEntry> list_uploads(std::string_view name_prefix);  // their keys are names

  const Session& session() const { return *session_; }

 private:
  using Query = std::vector<std::pair<std::string, std::string>>;
  struct Call {
    std::string method, key;
    Query query = {};
    http::Headers headers = {};
    Payload payload = {};
    std::optional<http::ByteRange> range = {};
    http::BodySink* sink = nullptr;
    std::uint64_t max_body_bytes = http::kMaxBodyBytes;
  };

  http::Response send(const Call& call);      // an answer with 2xx, or an error
  http::Response exchange(const Call& call);  // any answer
  http::Response retried(const Call& call, const std::function<http::Response()>& attempt);
  http::Request request_of(const Call& call) const;
  // One try, signed; clock and keys may each make it another one.
  http::Response send_once(const Call& call);
  bool follow_clock(const http::Response& response, std::string_view code, std::int64_t signed_at);
  bool renew_keys(const http::Response& response, std::string_view code, const Credentials& used);
  std::string shown(const Call& call) const;
  S3Error refusal(const http::Response& response, const Call& call) const;

  std::shared_ptr<Session> session_;
  const std::atomic<bool>* cancelled_;
  http::Client client_;
  std::uint64_t seed_;
  std::shared_ptr<const Credentials> used_;  // by the last request, to keep them out of texts
};

}  // namespace wmtp::s3
