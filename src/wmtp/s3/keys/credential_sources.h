// The places where keys for S3 may be, in the order in which they are asked.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "wmtp/http/client.h"
#include "wmtp/s3/keys/credentials.h"
#include "wmtp/s3/keys/ini_file.h"

namespace wmtp::s3 {

struct CredentialOptions {
  http::Environment env;  // all variables named below, HOME and those of http
  std::string profile;    // of the configuration: asked before the environment; empty: AWS_PROFILE
  std::string region;     // of STS; empty: us-east-1
  http::ClientOptions http;
};

// The profile that counts, from both files; keys of the credentials file come before those of the
// config file.
struct Profile {
  std::string name = {};
  bool is_named = false;  // by configuration or AWS_PROFILE, not "default" for want of another
  bool exists = false;
  IniSection keys = {};
  std::string files = {};  // those that were looked at, for messages

  ~Profile();  // overwrites the values, some of which are secrets
  std::string find(const std::string& key) const;  // "" where there is none
};
Profile read_profile(const CredentialOptions& options);

std::string variable(const http::Environment& env, const std::string& name);  // "": not set

std::string aws_domain(std::string_view region);  // amazonaws.com, in China amazonaws.com.cn

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.
std::unique_ptr<CredentialSource> environment_source(const CredentialOptions& options);
// AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, exchanged at STS (AWS_ENDPOINT_URL_STS).
std::unique_ptr<CredentialSource> web_identity_source(const CredentialOptions& options);
// ~/.aws/credentials and ~/.aws/config, or AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE. SSO,
// credential_process and assumed roles are refused by name.
std::unique_ptr<CredentialSource> profile_source(const CredentialOptions& options);
// AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI (ECS, EKS).
std::unique_ptr<CredentialSource> container_source(const CredentialOptions& options);
// Version 2 of EC2's instance metadata (AWS_EC2_METADATA_DISABLED,
// AWS_EC2_METADATA_SERVICE_ENDPOINT).
std::unique_ptr<CredentialSource> instance_source(const CredentialOptions& options);

// All of them: environment, web identity, profile, container, instance. With a profile in the
// configuration this one alone.
CredentialProvider::Sources default_sources(const CredentialOptions& options);

// Where the container's keys are; Error config where AWS_CONTAINER_CREDENTIALS_FULL_URI leads over
// http to another machine than the agents of ECS and EKS. REQUIRES that one of both is set.
http::Url container_url(const http::Environment& env);

}  // namespace wmtp::s3
