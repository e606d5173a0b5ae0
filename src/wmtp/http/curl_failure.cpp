#include "wmtp/http/curl_failure.h"

#include <fmt/format.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <system_error>

#include "wmtp/core/time.h"

namespace wmtp::http {
namespace {

constexpr std::string_view kProxyHint =
    "a proxy is taken from http_proxy, https_proxy and all_proxy; no_proxy names exceptions";

bool says(const CurlOutcome& outcome, std::string_view words) {
  return outcome.detail.find(words) != outcome.detail.npos;
}

std::string os_error_text(int os_error) {
  return os_error ? ": " + std::generic_category().message(os_error) : "";
}

TlsReason certificate_reason(const CurlOutcome& outcome) {
  // Names are compared by libcurl, which says so in words only and leaves OpenSSL's result unset.
  if (says(outcome, "subject name")) return TlsReason::wrong_host;
  switch (outcome.verify_result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return TlsReason::wrong_host;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return TlsReason::expired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return TlsReason::not_yet_valid;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_UNTRUSTED:
      return TlsReason::unknown_ca;
    default:
      return TlsReason::other;
  }
}

Failure certificate_failure(const CurlOutcome& outcome, const std::string& who,
                            const std::string& host) {
  const TlsReason reason = certificate_reason(outcome);
  const auto failure = [&](std::string_view fact, std::string_view hint) {
    return Failure(FailureKind::tls, fmt::format("{}: the server's certificate {}", who, fact),
                   hint, reason);
  };
  switch (reason) {
    case TlsReason::expired:
      return failure("has expired", "renew it on the server; is this machine's clock right?");
    case TlsReason::not_yet_valid:
      return failure("is not valid yet", "is this machine's clock right?");
    case TlsReason::wrong_host:
      return failure(fmt::format("is for another host than {}", host),
                     "use the name that is in the certificate, or have it issued for this one");
    case TlsReason::unknown_ca:
      return failure("is not from an authority that this machine trusts",
                     "name a PEM file with the authority's certificate with CURL_CA_BUNDLE or "
                     "SSL_CERT_FILE");
    default:
      return failure(fmt::format("is refused (OpenSSL's reason {})", outcome.verify_result),
                     "openssl s_client -connect shows it");
  }
}

// A handshake can fail by what the server says, or because the connection ended meanwhile.
Failure handshake_failure(const CurlOutcome& outcome, const std::string& who) {
  const bool ended = outcome.os_error == ECONNRESET || outcome.os_error == EPIPE ||
                     says(outcome, "SSL_ERROR_SYSCALL") || says(outcome, "unexpected eof") ||
                     says(outcome, "Connection reset");
  if (ended)
    return {FailureKind::reset, who + ": the connection ended in the TLS handshake",
            "is the server up?"};
  return {FailureKind::tls,
          who +
              ": no TLS connection, as server and client have no protocol in "
              "common",
          "does the server speak TLS 1.2 or later at this port, and not plain http?",
          TlsReason::protocol};
}

Failure connect_failure(const CurlOutcome& outcome, const std::string& who, const Request& request,
                        const ClientOptions& options) {
  switch (outcome.code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {FailureKind::connect,
              fmt::format("{}: there is no address for the host {}", who, request.url.host),
              "check its name and the name service of this machine"};
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {FailureKind::connect, who + ": there is no address for the proxy of the environment",
              kProxyHint};
    case CURLE_OPERATION_TIMEDOUT:
      return {
          FailureKind::connect,
          fmt::format("{}: no connection within {}", who,
                      format_duration(static_cast<double>(options.connect_limit.count()) / 1000)),
          "is the server up, and does a firewall let this machine through?"};
    default:
      return {FailureKind::connect,
              fmt::format("{}: cannot connect{}", who, os_error_text(outcome.os_error)),
              fmt::format("is the server up, and is this its address? {}", kProxyHint)};
  }
}

Failure end_failure(const CurlOutcome& outcome, const std::string& who) {
  if (outcome.connect_status >= 300)
    return {FailureKind::connect,
            fmt::format("{}: the proxy answered CONNECT with {}", who, outcome.connect_status),
            kProxyHint};
  if (says(outcome, "in chunked-encoding"))
    return {FailureKind::malformed, who + ": the answer's body is not in the chunks it promises"};
  const std::string_view fact =
      outcome.code == CURLE_GOT_NOTHING    ? "the connection ended without an answer"
      : outcome.code == CURLE_PARTIAL_FILE ? "the connection ended inside the answer's body"
                                           : "the connection broke";
  return {FailureKind::reset, fmt::format("{}: {}{}", who, fact, os_error_text(outcome.os_error))};
}

}  // namespace

Failure failure_of(const CurlOutcome& outcome, const Request& request,
                   const ClientOptions& options) {
  const std::string who = shown(request);
  switch (outcome.code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      // A server that hangs up at once may be noticed as early as here.
      if (outcome.os_error == ECONNRESET) return end_failure(outcome, who);
      return connect_failure(outcome, who, request, options);
    case CURLE_OPERATION_TIMEDOUT:  // all other limits are the client's own
      return connect_failure(outcome, who, request, options);
    case CURLE_PEER_FAILED_VERIFICATION:
      return certificate_failure(outcome, who, request.url.host);
    case CURLE_SSL_CONNECT_ERROR:
      return handshake_failure(outcome, who);
    case CURLE_SSL_CACERT_BADFILE:
      return {FailureKind::tls, who + ": the file of trusted authorities holds no certificates",
              "it must be PEM; see CURL_CA_BUNDLE and SSL_CERT_FILE", TlsReason::other};
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_FAIL_REWIND:
      return end_failure(outcome, who);
    case CURLE_OUT_OF_MEMORY:  // a header line beyond libcurl's own limit, in versions before 8
      return {FailureKind::too_large, who + ": a header of more than 100 kB in the answer"};
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return {FailureKind::malformed, who + ": what came is no answer of HTTP/1.1",
              "is this the server that was meant, and its port?"};
    default:
      return {FailureKind::malformed,
              fmt::format("{}: {} (libcurl's code {})", who, outcome.code_text,
                          static_cast<int>(outcome.code))};
  }
}

}  // namespace wmtp::http
