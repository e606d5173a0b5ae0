#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/printable.h"
#include "wmtp/s3/keys/credential_sources.h"

namespace wmtp::s3 {
namespace {

// A file that a variable names must be there; that of the home folder need not.
std::filesystem::path profile_path(const http::Environment& env, const char* name,
                                   const char* below_home) {
  const std::string home = variable(env, "HOME");
  const std::string given = variable(env, name);
  if (given.empty()) return home.empty() ? "" : std::filesystem::path(home) / ".aws" / below_home;
  if (given.starts_with("~/") && !home.empty())
    return std::filesystem::path(home) / given.substr(2);
  return given;
}

IniFile read_profile_file(const std::filesystem::path& path, std::string& files) {
  std::error_code error;
  files += fmt::format("{}{}", files.empty() ? "" : " and ", printable(path.string()));
  if (path.empty() || !std::filesystem::exists(path, error)) return {};
  std::string text = read_file(path, kMaxIniBytes, ErrorKind::config);
  IniFile file = parse_ini(text, path.string());
  wipe(text);
  return file;
}

void wipe_values(IniFile& file) {
  for (auto& [name, section] : file)
    for (auto& [key, value] : section) wipe(value);
}

void take_section(const IniFile& file, const std::string& section, Profile& profile) {
  const auto found = file.find(section);
  if (found == file.end()) return;
  profile.exists = true;
  profile.keys.insert(found->second.begin(), found->second.end());  // the first of a name stays
}

// What AWS's tools can do and this program does not: each with the way that works here.
void refuse_other_ways(const Profile& profile) {
  const std::string way_out = fmt::format(
      "put temporary keys into the environment: eval \"$(aws configure export-credentials "
      "--profile {} --format env)\"",
      shell_word(profile.name));
  const auto refuse = [&](const char* key, const char* what) {
    if (!profile.find(key).empty())
      throw Error(
          ErrorKind::config, "s3",
          fmt::format("the profile \"{}\" gets its keys from {} ({}), which is not supported",
                      printable(profile.name), what, key),
          way_out);
  };
  refuse("sso_session", "single sign-on");
  refuse("sso_start_url", "single sign-on");
  refuse("sso_account_id", "single sign-on");
  refuse("credential_process", "another program");
  refuse("source_profile", "a role of another profile");
  refuse("credential_source", "an assumed role");
  refuse("role_arn", "an assumed role");
  refuse("login_session", "a login of the AWS command line");
}

class ProfileSource : public CredentialSource {
 public:
  explicit ProfileSource(CredentialOptions options) : options_(std::move(options)) {}

  Answer read() override {
    const Profile profile = read_profile(options_);
    if (!profile.exists && profile.is_named)
      throw Error(
          ErrorKind::config, "s3",
          fmt::format("there is no profile \"{}\" in {}", printable(profile.name), profile.files),
          "aws configure --profile NAME makes one");
    Credentials found{.access_key = Secret(profile.find("aws_access_key_id")),
                      .secret_key = Secret(profile.find("aws_secret_access_key")),
                      .session_token = Secret(profile.find("aws_session_token")),
                      .expires = std::nullopt,
                      .source = fmt::format("the profile \"{}\"", printable(profile.name))};
    if (found.access_key.empty() != found.secret_key.empty())
      throw Error(ErrorKind::config, "s3",
                  fmt::format("the profile \"{}\" has one of aws_access_key_id and "
                              "aws_secret_access_key and not the other",
                              printable(profile.name)));
    if (!found.access_key.empty()) return {std::move(found), {}};
    refuse_other_ways(profile);
    if (profile.is_named)
      throw Error(ErrorKind::config, "s3",
                  fmt::format("the profile \"{}\" has no keys in {}", printable(profile.name),
                              profile.files));
    return {std::nullopt, fmt::format("no keys for the profile \"default\" in {}", profile.files)};
  }

 private:
  CredentialOptions options_;
};

}  // namespace

Profile::~Profile() {
  for (auto& [key, value] : keys) wipe(value);
}

std::string Profile::find(const std::string& key) const {
  const auto found = keys.find(key);
  return found == keys.end() ? "" : found->second;
}

Profile read_profile(const CredentialOptions& options) {
  Profile profile;
  profile.name = options.profile.empty() ? variable(options.env, "AWS_PROFILE") : options.profile;
  profile.is_named = !profile.name.empty();
  if (!profile.is_named) profile.name = "default";
  IniFile keys = read_profile_file(
      profile_path(options.env, "AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile.files);
  IniFile config =
      read_profile_file(profile_path(options.env, "AWS_CONFIG_FILE", "config"), profile.files);
  take_section(keys, profile.name, profile);
  take_section(config, "profile " + profile.name, profile);
  if (profile.name == "default") take_section(config, profile.name, profile);
  wipe_values(keys);
  wipe_values(config);
  return profile;
}

std::unique_ptr<CredentialSource> profile_source(const CredentialOptions& options) {
  return std::make_unique<ProfileSource>(options);
}

}  // namespace wmtp::s3
