#include "wmtp/s3/session.h"

#include <unistd.h>

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/s3/keys/temporary_keys.h"
#include "wmtp/s3/part_plan.h"

namespace wmtp::s3 {
namespace {

CredentialOptions credential_options(const Options& options, const std::string& region) {
  return {options.http.env, options.profile, region, options.http};
}

Options checked(Options options) {
  const auto refuse = [](std::string_view fact) { throw Error(ErrorKind::config, "s3", fact); };
  if (options.part_bytes < kLeastPartBytes || options.part_bytes > kMostPartBytes)
    refuse(fmt::format("parts of {} bytes, where S3 takes 5 MiB to 5 GiB", options.part_bytes));
  if (options.concurrency < 1 || options.concurrency > 64)
    refuse(fmt::format("a concurrency of {}, not between 1 and 64", options.concurrency));
  if (options.retries < 0 || options.retries > 100)
    refuse(fmt::format("{} retries, not between 0 and 100", options.retries));
  options.http.allow_plain_credentials = options.allow_http;
  // A limit on the whole follows the largest body: 256 KiB/s is slow, and no reason to give up.
  constexpr std::uint64_t kSlowBytesPerS = 256 << 10;
  options.http.total_limit += std::chrono::seconds(options.part_bytes / kSlowBytesPerS);
  return options;
}

}  // namespace

Session::Session(Options options)
    : options_(checked(std::move(options))),
      location_(resolve_location(options_, read_profile(credential_options(options_, "")))),
      credentials_(default_sources(credential_options(options_, location_.region))),
      num_connections_(static_cast<std::uint64_t>(::getpid()) << 32) {}

std::int64_t Session::now() const {
  return wall_seconds() + clock_offset_;
}

void Session::follow_server(std::int64_t server_seconds) {
  const std::int64_t offset = server_seconds - wall_seconds();
  log::warn("s3",
            "the clock of this machine and that of {} differ by {} s; signatures follow the server",
            location_.endpoint.authority(), offset);
  clock_offset_ = offset;
}

std::shared_ptr<Session> open_session(Options options) {
  return std::make_shared<Session>(std::move(options));
}

}  // namespace wmtp::s3
