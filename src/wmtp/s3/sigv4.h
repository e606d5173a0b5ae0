// Version 4 of AWS's signatures: own code, as libcurl's signer leaves out x-amz-content-sha256 and
// signs a query as it was typed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/http/message.h"
#include "wmtp/s3/keys/credentials.h"

namespace wmtp::s3 {

// What a signature covers. All headers given are signed; names in any case, of which the same one
// may come twice.
struct SigningInput {
  std::string method;
  std::string path;   // percent-encoded as it is sent
  std::string query;  // of http::query_text, as it is sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string payload_hash;
};
struct SigningScope {
  std::string region, service = "s3";
};

struct Signature {
  std::string canonical_request, string_to_sign, signed_headers;
  std::string hex;
};

// `seconds` since 1970. REQUIRES host among the headers.
Signature compute_signature(const SigningInput& input, const Credentials& credentials,
                            const SigningScope& scope, std::int64_t seconds);

inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Puts X-Amz-Date, X-Amz-Content-SHA256, X-Amz-Security-Token (temporary keys) and Authorization
// into the request, instead of those that are in it. All of its headers are signed. REQUIRES a
// query of http::query_text, and TLS where the payload is kUnsignedPayload.
void sign(http::Request& request, const Credentials& credentials, const SigningScope& scope,
          std::string_view payload_hash, std::int64_t seconds);

std::string amz_date(std::int64_t seconds);  // 20130524T000000Z

}  // namespace wmtp::s3
