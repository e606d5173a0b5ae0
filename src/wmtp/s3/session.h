// What all connections to one bucket share: where it is, the keys, the server's clock.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "wmtp/s3/keys/credentials.h"
#include "wmtp/s3/location.h"
#include "wmtp/s3/options.h"

namespace wmtp::s3 {

// THREADS: any.
class Session {
 public:
  // Error config where options, environment or profile make no sense. Keys are read when the first
  // request is signed.
  explicit Session(Options options);

  const Options& options() const { return options_; }
  const Location& location() const { return location_; }
  CredentialProvider& credentials() { return credentials_; }

  // Seconds since 1970 as the server has it, as far as it is known.
  std::int64_t now() const;
  // Signatures follow this time of the server from now on.
  void follow_server(std::int64_t server_seconds);

  // A different number each time: the seed of a connection's waits.
  std::uint64_t next_seed() { return num_connections_++; }

 private:
  Options options_;
  Location location_;
  CredentialProvider credentials_;
  std::atomic<std::int64_t> clock_offset_ = 0;
  std::atomic<std::uint64_t> num_connections_ = 0;
};

std::shared_ptr<Session> open_session(Options options);

}  // namespace wmtp::s3
