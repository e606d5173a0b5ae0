#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/s3/keys/credential_sources.h"
#include "wmtp/s3/keys/temporary_keys.h"

namespace wmtp::s3 {
namespace {

constexpr const char* kRelativeUri = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
constexpr const char* kFullUri = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
// The agents of ECS and EKS, which are on this machine though not on its loopback.
constexpr std::array<std::string_view, 3> kAgents = {"169.254.170.2", "169.254.170.23",
                                                     "fd00:ec2::23"};
constexpr std::size_t kMaxTokenBytes = std::size_t{64} << 10;

std::string authorization_token(const http::Environment& env) {
  const std::string file = variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (file.empty()) return variable(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  std::string token = read_file(file, kMaxTokenBytes, ErrorKind::config);
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  return token;
}

class ContainerSource : public CredentialSource {
 public:
  explicit ContainerSource(CredentialOptions options) : options_(std::move(options)) {}

  Answer read() override {
    if (variable(options_.env, kRelativeUri).empty() && variable(options_.env, kFullUri).empty())
      return {std::nullopt, fmt::format("no container endpoint ({})", kFullUri)};
    http::Request request;
    request.url = container_url(options_.env);
    request.max_body_bytes = kMaxTokenBytes;
    // Read anew each time: the file's token is changed every day.
    std::string token = authorization_token(options_.env);
    if (!token.empty()) request.headers.add("Authorization", token);
    wipe(token);
    http::ClientOptions limits = service_options(options_.http);
    limits.allow_plain_credentials = true;  // container_url has seen to where it goes
    http::Client client(limits);
    return {keys_from_json(ask_service(client, request), "the container endpoint"), {}};
  }

 private:
  CredentialOptions options_;
};

}  // namespace

http::Url container_url(const http::Environment& env) {
  const std::string relative = variable(env, kRelativeUri);
  if (!relative.empty()) {
    if (!relative.starts_with('/'))
      throw Error(ErrorKind::config, "s3", fmt::format("{} does not begin with /", kRelativeUri));
    return http::parse_url(fmt::format("http://{}{}", kAgents[0], relative), kRelativeUri);
  }
  http::Url url = http::parse_url(variable(env, kFullUri), kFullUri);
  const bool is_agent = std::ranges::find(kAgents, url.host) != kAgents.end();
  if (!url.is_tls() && !url.is_loopback() && !is_agent)
    throw Error(ErrorKind::config, "s3",
                fmt::format("{} leads over http to {}, which is neither this machine nor the "
                            "agent of ECS or EKS",
                            kFullUri, url.host),
                "keys would go over the network unencrypted; use https");
  return url;
}

std::unique_ptr<CredentialSource> container_source(const CredentialOptions& options) {
  return std::make_unique<ContainerSource>(options);
}

}  // namespace wmtp::s3
