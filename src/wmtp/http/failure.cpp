#include "wmtp/http/failure.h"

#include <string>

namespace wmtp::http {
namespace {

ErrorKind error_kind(FailureKind failure) {
  switch (failure) {
    case FailureKind::tls:
      return ErrorKind::config;
    case FailureKind::too_large:
    case FailureKind::malformed:
      return ErrorKind::data;
    default:
      return ErrorKind::comm;
  }
}

}  // namespace

Failure::Failure(FailureKind failure, std::string_view fact, std::string_view hint,
                 TlsReason tls_reason, std::source_location where)
    : Error(error_kind(failure), "http", fact, hint, where),
      failure_(failure),
      tls_reason_(tls_reason) {}

Failure Failure::with_note(std::string_view note) const {
  return {failure_, fact() + std::string(note), hint(), tls_reason_, where()};
}

std::string_view name_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::connect:
      return "connect";
    case FailureKind::timeout:
      return "timeout";
    case FailureKind::reset:
      return "reset";
    case FailureKind::tls:
      return "tls";
    case FailureKind::too_large:
      return "too_large";
    case FailureKind::malformed:
      return "malformed";
    case FailureKind::cancelled:
      return "cancelled";
  }
  return "malformed";
}

std::string_view name_of(TlsReason reason) {
  switch (reason) {
    case TlsReason::none:
      return "none";
    case TlsReason::expired:
      return "expired";
    case TlsReason::not_yet_valid:
      return "not_yet_valid";
    case TlsReason::wrong_host:
      return "wrong_host";
    case TlsReason::unknown_ca:
      return "unknown_ca";
    case TlsReason::protocol:
      return "protocol";
    case TlsReason::other:
      return "other";
  }
  return "other";
}

}  // namespace wmtp::http
