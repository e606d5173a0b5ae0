#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/printable.h"
#include "wmtp/s3/keys/credential_sources.h"
#include "wmtp/s3/keys/temporary_keys.h"
#include "wmtp/s3/xml.h"

namespace wmtp::s3 {
namespace {

constexpr const char* kTokenFile = "AWS_WEB_IDENTITY_TOKEN_FILE";
constexpr const char* kRoleArn = "AWS_ROLE_ARN";
constexpr const char* kStsEndpoint = "AWS_ENDPOINT_URL_STS";
constexpr std::string_view kStsName = "STS (AssumeRoleWithWebIdentity)";
constexpr std::size_t kMaxIdentityBytes = std::size_t{64} << 10;

http::Url sts_url(const CredentialOptions& options) {
  const std::string given = variable(options.env, kStsEndpoint);
  if (given.empty()) {
    const std::string region = options.region.empty() ? "us-east-1" : options.region;
    return http::parse_url(fmt::format("https://sts.{}.{}", region, aws_domain(region)),
                           "the address of STS");
  }
  http::Url url = http::parse_url(given, kStsEndpoint);
  if (!url.is_tls() && !url.is_loopback())
    throw Error(ErrorKind::config, "s3",
                fmt::format("{} leads over http to another machine", kStsEndpoint),
                "the identity token would go over the network unencrypted; use https");
  return url;
}

// " (AccessDenied)" where the answer says so.
std::string sts_error_code(const http::Response& response) {
  try {
    const XmlElement root = parse_xml(response.body, kStsName);
    const XmlElement* error = root.find("Error");
    return error ? fmt::format(" ({})", printable(error->text_of("Code"))) : "";
  } catch (const Error&) {
    return "";
  }
}

Credentials keys_from_sts(const http::Response& response) {
  if (response.status != 200)
    throw Error(response.status >= 500 ? ErrorKind::comm : ErrorKind::config, "s3",
                fmt::format("{} answers {}{}", kStsName, response.status, sts_error_code(response)),
                "may the role be assumed with this token (trust policy, audience, age)?");
  const XmlElement root = parse_xml(response.body, kStsName);
  const XmlElement* result = root.find("AssumeRoleWithWebIdentityResult");
  const XmlElement* keys = result ? result->find("Credentials") : nullptr;
  if (!keys)
    throw Error(ErrorKind::data, "s3", fmt::format("{}: no Credentials in the answer", kStsName));
  Credentials made{.access_key = Secret(keys->text_of("AccessKeyId")),
                   .secret_key = Secret(keys->text_of("SecretAccessKey")),
                   .session_token = Secret(keys->text_of("SessionToken")),
                   .expires = std::nullopt,
                   .source = std::string(kStsName)};
  if (made.access_key.empty() || made.secret_key.empty() || made.session_token.empty())
    throw Error(ErrorKind::data, "s3", fmt::format("{}: a key is missing in the answer", kStsName));
  made.expires = end_of_keys(keys->text_of("Expiration"), response, kStsName);
  return made;
}

class WebIdentitySource : public CredentialSource {
 public:
  explicit WebIdentitySource(CredentialOptions options) : options_(std::move(options)) {}

  Answer read() override {
    const std::string file = variable(options_.env, kTokenFile);
    const std::string role = variable(options_.env, kRoleArn);
    if (file.empty()) return {std::nullopt, fmt::format("{} is not set", kTokenFile)};
    if (role.empty())
      throw Error(ErrorKind::config, "s3",
                  fmt::format("{} is set and {} is not", kTokenFile, kRoleArn),
                  "both come from the cluster; is the service account annotated?");
    http::Client client(service_options(options_.http));
    http::Request request = request_for(file, role);
    const http::Response response = ask_service(client, request);
    wipe(request.body);
    return {keys_from_sts(response), {}};
  }

 private:
  // The file's token is changed every hour, so it is read anew each time.
  http::Request request_for(const std::string& file, const std::string& role) const {
    std::string token = read_file(file, kMaxIdentityBytes, ErrorKind::config);
    while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
    std::string session = variable(options_.env, "AWS_ROLE_SESSION_NAME");
    if (session.empty()) session = "wmtp";
    http::Request request;
    request.method = "POST";
    request.url = sts_url(options_);
    request.headers.add("Content-Type", "application/x-www-form-urlencoded");
    request.body = http::query_text({{"Action", "AssumeRoleWithWebIdentity"},
                                     {"Version", "2011-06-15"},
                                     {"RoleArn", role},
                                     {"RoleSessionName", session},
                                     {"WebIdentityToken", token}});
    wipe(token);
    return request;
  }

  CredentialOptions options_;
};

}  // namespace

std::unique_ptr<CredentialSource> web_identity_source(const CredentialOptions& options) {
  return std::make_unique<WebIdentitySource>(options);
}

}  // namespace wmtp::s3
