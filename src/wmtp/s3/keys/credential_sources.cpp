#include "wmtp/s3/keys/credential_sources.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::s3 {
namespace {

class EnvironmentSource : public CredentialSource {
 public:
  explicit EnvironmentSource(CredentialOptions options) : options_(std::move(options)) {}

  Answer read() override {
    const auto secret = [&](const char* name) {
      std::string text = variable(options_.env, name);
      Secret made(text);
      wipe(text);
      return made;
    };
    Credentials found{.access_key = secret("AWS_ACCESS_KEY_ID"),
                      .secret_key = secret("AWS_SECRET_ACCESS_KEY"),
                      .session_token = secret("AWS_SESSION_TOKEN"),
                      .expires = std::nullopt,
                      .source = "the environment"};
    if (found.access_key.empty() && found.secret_key.empty())
      return {std::nullopt, "AWS_ACCESS_KEY_ID is not set"};
    if (found.access_key.empty() || found.secret_key.empty())
      throw Error(
          ErrorKind::config, "s3",
          fmt::format("{} is set and {} is not",
                      found.access_key.empty() ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID",
                      found.access_key.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY"),
          "set both, or neither to use a profile");
    return {std::move(found), {}};
  }

 private:
  CredentialOptions options_;
};

}  // namespace

std::string variable(const http::Environment& env, const std::string& name) {
  return env ? env(name).value_or("") : "";
}

std::string aws_domain(std::string_view region) {
  return region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::unique_ptr<CredentialSource> environment_source(const CredentialOptions& options) {
  return std::make_unique<EnvironmentSource>(options);
}

CredentialProvider::Sources default_sources(const CredentialOptions& options) {
  CredentialProvider::Sources sources;
  if (!options.profile.empty()) {
    sources.push_back(profile_source(options));
    return sources;
  }
  sources.push_back(environment_source(options));
  sources.push_back(web_identity_source(options));
  sources.push_back(profile_source(options));
  sources.push_back(container_source(options));
  sources.push_back(instance_source(options));
  return sources;
}

}  // namespace wmtp::s3
