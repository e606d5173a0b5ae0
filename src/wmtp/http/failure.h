// Requests that got no answer. An answer, whatever its status, is a Response and no failure.
#pragma once
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::http {

enum class FailureKind {
  connect,    // no address, nobody listens, no connection within its limit
  timeout,    // connected, but the whole or a pause took longer than its limit
  reset,      // the connection ended before the answer did
  tls,        // no trust, or no common protocol: see TlsReason
  too_large,  // head or body beyond its limit
  malformed,  // what came is no answer of HTTP/1.1, or none to what was asked
  cancelled,
};
enum class TlsReason { none, expired, not_yet_valid, wrong_host, unknown_ca, protocol, other };

// Its text names method, scheme, host, port and path, never a header, user info or a query. Kinds:
// tls is config, too_large and malformed are data, the others comm.
class Failure : public Error {
 public:
  Failure(FailureKind failure, std::string_view fact, std::string_view hint = {},
          TlsReason tls_reason = TlsReason::none,
          std::source_location where = std::source_location::current());

  FailureKind failure() const { return failure_; }
  TlsReason tls_reason() const { return tls_reason_; }
  // The same failure with more to say behind its fact.
  Failure with_note(std::string_view note) const;

 private:
  FailureKind failure_;
  TlsReason tls_reason_;
};

std::string_view name_of(FailureKind kind);
std::string_view name_of(TlsReason reason);

}  // namespace wmtp::http
