#include "wmtp/cli/doctor/s3_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "wmtp/core/printable.h"
#include "wmtp/core/time.h"
#include "wmtp/http/ca_bundle.h"
#include "wmtp/http/client.h"
#include "wmtp/http/http_date.h"
#include "wmtp/s3/bucket.h"
#include "wmtp/s3/part_plan.h"

namespace wmtp::cli {
namespace {

using namespace std::chrono_literals;

// Signatures are refused beyond 15 minutes; the client follows the server's clock then.
constexpr std::int64_t kSkewToleranceS = 60;
constexpr const char* kProbeBody = "written by wmtp doctor --s3, and removed at once\n";

s3::Options hurried(s3::Options options) {
  options.http.connect_limit = 5s;
  options.http.total_limit = options.http.stall_limit = 10s;
  options.part_bytes = s3::kLeastPartBytes;
  options.retries = 1;
  options.first_wait = 200ms;
  return options;
}

class BucketExam {
 public:
  explicit BucketExam(s3::Options options) : options_(hurried(std::move(options))) {}

  std::vector<Check> findings() {
    if (find_place() && find_libcurl() && find_trust() && find_keys() && reach() && find_bucket())
      try_permissions();
    return std::move(checks_);
  }

 private:
  void add(Health health, std::string name, std::string fact, std::string fix = {}) {
    checks_.push_back({health, std::move(name), std::move(fact), std::move(fix), {}});
  }
  bool fail(std::string name, const Error& error, std::string_view fix = {}) {
    add(Health::fail, std::move(name), error.fact(),
        error.hint().empty() ? std::string(fix) : error.hint());
    return false;
  }

  bool find_place() {
    if (options_.bucket.empty()) {
      add(Health::fail, "S3", "no bucket: storage.s3.bucket is not set",
          "set it in a configuration, and name that by --config");
      return false;
    }
    try {
      session_ = s3::open_session(options_);
    } catch (const Error& error) {
      return fail("S3", error);
    }
    const s3::Location& place = session_->location();
    add(Health::ok, "S3",
        fmt::format("{} at {}, region {}", place.shown(place.prefix), place.endpoint.authority(),
                    place.region));
    return true;
  }

  bool find_libcurl() {
    try {
      add(Health::ok, "libcurl", printable(http::curl_version()));
      return true;
    } catch (const Error& error) {
      return fail("libcurl", error);
    }
  }

  bool find_trust() {
    const http::Url& endpoint = session_->location().endpoint;
    if (!endpoint.is_tls()) {
      const bool is_here = endpoint.is_loopback();
      add(is_here ? Health::ok : Health::warn, "TLS",
          is_here ? "none: plain http to this machine" : "none: plain http",
          is_here ? "" : "use https: everyone on the way can read and change what is sent");
      return true;
    }
    try {
      const auto& given = options_.http.ca_file;
      const auto file = given.empty() ? http::find_ca_bundle(options_.http.env) : given;
      add(Health::ok, "TLS", fmt::format("checked against {}", printable(file.string())));
      return true;
    } catch (const Error& error) {
      return fail("TLS", error);
    }
  }

  bool find_keys() {
    try {
      const auto keys = session_->credentials().get();
      add(Health::ok, "keys", fmt::format("from {}", keys->source));
      return true;
    } catch (const Error& error) {
      return fail("keys", error, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    }
  }

  // Without a signature: whatever the server answers, it is there and tells its time.
  bool reach() {
    http::Request request;
    request.url = session_->location().url_of("");
    const auto begun = Clock::now();
    try {
      http::Client client(options_.http);
      const http::Response response = client.send(request);
      add(Health::ok, "reachable",
          fmt::format("answered within {:.0f} ms", seconds_since(begun) * 1e3));
      show_skew(response);
      return true;
    } catch (const http::Failure& failure) {
      const bool is_tls = failure.failure() == http::FailureKind::tls;
      return fail(is_tls ? "TLS" : "reachable", failure,
                  "is the server running, and is storage.s3.endpoint its address?");
    } catch (const Error& error) {
      return fail("reachable", error);
    }
  }

  void show_skew(const http::Response& response) {
    const auto date = http::parse_http_date(response.headers.find("Date").value_or(""));
    if (!date) return;
    const std::int64_t difference = *date - static_cast<std::int64_t>(std::time(nullptr));
    const bool is_near = std::abs(difference) <= kSkewToleranceS;
    add(is_near ? Health::ok : Health::warn, "server clock",
        fmt::format("{} s {} this machine's", std::abs(difference),
                    difference < 0 ? "behind" : "ahead of"),
        is_near ? "" : "set both by NTP: S3 refuses signatures that are 15 minutes off");
  }

  // A list is the least that all of it needs.
  bool find_bucket() {
    bucket_.emplace(session_);
    try {
      bucket_->list("", "/", {}, 1);
    } catch (const s3::S3Error& error) {
      switch (error.problem()) {
        case s3::Problem::no_bucket:
          return fail("bucket", error);
        case s3::Problem::wrong_region:
          return fail("region", error);
        case s3::Problem::bad_keys:
          return fail("keys", error);
        case s3::Problem::skewed_clock:
          return fail("server clock", error);
        case s3::Problem::denied:
          add(Health::fail, "list", error.fact(), allow("s3:ListBucket", /*of_bucket=*/true));
          return true;  // the keys are right: the others may be allowed
        default:
          return fail("bucket", error);
      }
    } catch (const Error& error) {
      return fail("bucket", error);
    }
    add(Health::ok, "bucket", "is there, in this region, and the keys are its");
    add(Health::ok, "list", "allowed");
    return true;
  }

  void try_permissions() {
    const std::string name =
        fmt::format(".wmtp-doctor-{:x}-{}",
                    std::chrono::system_clock::now().time_since_epoch().count(), ::getpid());
    const bool is_put = attempt("put", allow("s3:PutObject"), [&] {
      bucket_->put(name, s3::payload_of(kProbeBody, options_.checksum));
      return "";
    });
    if (!is_put) return;  // nothing to read or to remove
    attempt("get", allow("s3:GetObject"), [&] {
      const bool is_same = bucket_->get(name) == kProbeBody;
      return is_same ? "" : "what came back is not what was sent";
    });
    attempt("multipart", allow("s3:PutObject and s3:AbortMultipartUpload"), [&] {
      const std::string id = bucket_->create_upload(name);
      bucket_->put_part(name, id, 1, s3::payload_of(kProbeBody, options_.checksum));
      bucket_->abort_upload(name, id);
      return "";
    });
    attempt(
        "uploads", allow("s3:ListBucketMultipartUploads", /*of_bucket=*/true),
        [&] {
          bucket_->list_uploads(name);
          return "";
        },
        Health::warn);
    const std::string left = fmt::format("{}; {} is still there", allow("s3:DeleteObject"),
                                         session_->location().shown(key_of(name)));
    attempt("delete", left, [&] {
      bucket_->remove(name);
      return bucket_->head(name) ? "the object is still there" : "";
    });
  }

  // `work` returns what is wrong, or "".
  bool attempt(const std::string& name, const std::string& fix,
               const std::function<const char*()>& work, Health otherwise = Health::fail) {
    try {
      const std::string fault = work();
      const bool is_fine = fault.empty();
      add(is_fine ? Health::ok : otherwise, name, is_fine ? "allowed" : fault, is_fine ? "" : fix);
      return is_fine;
    } catch (const s3::S3Error& error) {
      const bool is_denied = error.problem() == s3::Problem::denied;
      add(otherwise, name, error.fact(), is_denied ? fix : error.hint());
    } catch (const Error& error) {
      add(otherwise, name, error.fact(), error.hint().empty() ? fix : error.hint());
    }
    return false;
  }

  std::string key_of(const std::string& name) const { return session_->location().key_of(name); }

  std::string allow(std::string_view action, bool of_bucket = false) const {
    const s3::Location& place = session_->location();
    const std::string below = place.prefix.empty() ? "*" : fmt::format("{}/*", place.prefix);
    return fmt::format("allow these keys {} on arn:aws:s3:::{}{}", action, place.bucket,
                       of_bucket ? "" : "/" + printable(below));
  }

  s3::Options options_;
  std::shared_ptr<s3::Session> session_;
  std::optional<s3::Bucket> bucket_;
  std::vector<Check> checks_;
};

}  // namespace

std::vector<Check> check_s3(s3::Options options) {
  return BucketExam(std::move(options)).findings();
}

}  // namespace wmtp::cli
