#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/http/failure.h"
#include "wmtp/s3/keys/credential_sources.h"
#include "wmtp/s3/keys/temporary_keys.h"

namespace wmtp::s3 {
namespace {

constexpr const char* kMetadataEndpoint = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
constexpr std::string_view kMetadataHost = "169.254.169.254", kMetadataHost6 = "fd00:ec2::254";
constexpr std::string_view kRolePath = "/latest/meta-data/iam/security-credentials/";
constexpr std::string_view kInstanceName = "the instance metadata";
constexpr std::size_t kMaxMetadataBytes = std::size_t{64} << 10, kMaxRoleBytes = 256;

http::Url metadata_url(const http::Environment& env) {
  const std::string given = variable(env, kMetadataEndpoint);
  if (given.empty()) return http::parse_url(fmt::format("http://{}", kMetadataHost), "the address");
  http::Url url = http::parse_url(given, kMetadataEndpoint);
  const bool is_metadata = url.host == kMetadataHost || url.host == kMetadataHost6;
  if (!url.is_tls() && !url.is_loopback() && !is_metadata)
    throw Error(ErrorKind::config, "s3",
                fmt::format("{} leads over http to {}, which is not the metadata service",
                            kMetadataEndpoint, url.host),
                "keys would go over the network unencrypted");
  return url;
}

[[noreturn]] void refuse_metadata(std::string_view fact, std::string_view hint) {
  throw Error(ErrorKind::config, "s3", fmt::format("{}: {}", kInstanceName, fact), hint);
}

void check_metadata_token(const http::Response& token) {
  if (token.status == 200 && !token.body.empty()) return;
  if (token.status == 403)
    refuse_metadata("it is switched off (403)", "give the keys in another way");
  if (token.status == 404 || token.status == 405)
    refuse_metadata(
        fmt::format("only version 1 of it answers (status {} for a token), which is not used: "
                    "whoever makes a process fetch a URL gets the keys",
                    token.status),
        "switch version 2 on for the instance");
  refuse_metadata(fmt::format("it answers {} where a token was asked for", token.status),
                  "is this machine an instance of EC2?");
}

std::string attached_role(const http::Response& roles) {
  std::string role = roles.body.substr(0, roles.body.find('\n'));
  if (roles.status != 200 || role.empty() || role.size() > kMaxRoleBytes)
    refuse_metadata(fmt::format("it names no role (status {})", roles.status),
                    "attach a role to the instance");
  return role;
}

class InstanceSource : public CredentialSource {
 public:
  explicit InstanceSource(CredentialOptions options) : options_(std::move(options)) {}

  Answer read() override {
    const std::string off = variable(options_.env, "AWS_EC2_METADATA_DISABLED");
    if (off == "true" || off == "TRUE" || off == "True")
      return {std::nullopt, "instance metadata is off (AWS_EC2_METADATA_DISABLED)"};
    url_ = metadata_url(options_.env);
    http::ClientOptions limits = service_options(options_.http);
    limits.connect_limit = std::chrono::seconds(1);  // nobody answers where there is no EC2
    limits.allow_plain_credentials = true;           // metadata_url has seen to where they go
    http::Client client(limits);
    http::Response token;
    try {
      token = client.send(request_to("PUT", "/latest/api/token"));
    } catch (const http::Failure& failure) {
      return {std::nullopt, fmt::format("no instance metadata ({})", failure.fact())};
    }
    check_metadata_token(token);
    const http::Response roles = ask_service(client, request_to("GET", kRolePath, token.body));
    if (roles.status == 404) return {std::nullopt, "no role is attached to this instance"};
    const std::string path = std::string(kRolePath) + http::percent_encode(attached_role(roles));
    const http::Request request = request_to("GET", path, token.body);
    return {keys_from_json(ask_service(client, request), kInstanceName), {}};
  }

 private:
  http::Request request_to(std::string_view method, std::string_view path,
                           std::string_view token = {}) const {
    http::Request request;
    request.method = method;
    request.url = url_;
    request.url.path = path;
    request.max_body_bytes = kMaxMetadataBytes;
    if (token.empty())
      request.headers.add("X-aws-ec2-metadata-token-ttl-seconds", "21600");
    else
      request.headers.add("X-aws-ec2-metadata-token", token);
    return request;
  }

  CredentialOptions options_;
  http::Url url_;
};

}  // namespace

std::unique_ptr<CredentialSource> instance_source(const CredentialOptions& options) {
  return std::make_unique<InstanceSource>(options);
}

}  // namespace wmtp::s3
