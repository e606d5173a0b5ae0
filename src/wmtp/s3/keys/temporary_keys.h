// Temporary keys as the services hand them out over HTTP. Nothing of an answer reaches an error but
// its status: it may hold keys.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "wmtp/http/client.h"
#include "wmtp/s3/keys/credentials.h"

namespace wmtp::s3 {

// The limits of requests to services on this machine or beside it.
http::ClientOptions service_options(http::ClientOptions options);

// One request, tried a few times.
http::Response ask_service(http::Client& client, const http::Request& request);

// The JSON document of container and instance services: AccessKeyId, SecretAccessKey, Token,
// Expiration. `source` names it in errors and in the result.
Credentials keys_from_json(const http::Response& response, std::string_view source);

// When keys end that are good until `expiration` (ISO 8601), by the monotonic clock: counted from
// the answer's own Date where it has one, as clocks of two machines are not compared. Error data
// where it is no time.
Clock::time_point end_of_keys(std::string_view expiration, const http::Response& response,
                              std::string_view source);

std::int64_t wall_seconds();  // since 1970

}  // namespace wmtp::s3
