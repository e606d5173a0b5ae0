// Renewal by a clock of the test's own, and the places that need no server;
// tests/integration/test_s3_credentials.py has those that do.
#include "wmtp/s3/keys/credentials.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/s3/keys/credential_sources.h"

namespace wmtp::s3 {
namespace {

using namespace std::chrono_literals;

// Keys a1, a2, ... that live for so long; or what it is told to throw.
class CountingSource : public CredentialSource {
 public:
  struct Script {
    int num_reads = 0;
    std::chrono::seconds life{3600};
    bool is_broken = false, is_absent = false, has_same_keys = false;
    Clock::time_point now{};
  };
  explicit CountingSource(Script& script) : script_(script) {}
  Answer read() override {
    ++script_.num_reads;
    if (script_.is_absent) return {std::nullopt, "nothing here"};
    if (script_.is_broken) throw Error(ErrorKind::comm, "s3", "broken");
    const std::string key = fmt::format("a{}", script_.has_same_keys ? 1 : script_.num_reads);
    return {Credentials{.access_key = Secret(key),
                        .secret_key = Secret("s"),
                        .session_token = Secret(),
                        .expires = script_.now + script_.life,
                        .source = "the test"},
            {}};
  }

 private:
  Script& script_;
};

struct Provided {
  CountingSource::Script script;
  CredentialProvider provider{sources(), [this] { return script.now; }};

  CredentialProvider::Sources sources() {
    CredentialProvider::Sources made;
    made.push_back(std::make_unique<CountingSource>(script));
    return made;
  }
  std::string key() { return std::string(provider.get()->access_key.reveal()); }
};

TEST(Credentials, AreKeptAndRenewedBeforeTheyExpire) {
  Provided test;
  EXPECT_EQ(test.key(), "a1");
  test.script.now += 3299s;
  EXPECT_EQ(test.key(), "a1");
  test.script.now += 1s;
  EXPECT_EQ(test.key(), "a2");
  EXPECT_EQ(test.script.num_reads, 2);
}

TEST(Credentials, GoodOnesOutliveARenewalThatFails) {
  Provided test;
  test.key();
  test.script.is_broken = true;
  test.script.now += 3400s;
  EXPECT_EQ(test.key(), "a1");
  EXPECT_EQ(test.key(), "a1");
  EXPECT_EQ(test.script.num_reads, 2) << "not asked again at once";
  test.script.now += 30s;
  test.key();
  EXPECT_EQ(test.script.num_reads, 3);
  test.script.now += 200s;
  EXPECT_WMTP_ERROR(test.key(), ErrorKind::comm, "broken");
}

TEST(Credentials, ThoseThatHaveExpiredAlreadyAreRefused) {
  Provided test;
  test.script.life = 0s;
  EXPECT_WMTP_ERROR(test.key(), ErrorKind::config, "have expired already");
}

TEST(Credentials, AreReadAgainOnceAfterARefusal) {
  Provided test;
  const auto first = test.provider.get();
  EXPECT_TRUE(test.provider.renew_after_refusal(*first));
  EXPECT_TRUE(test.provider.renew_after_refusal(*first)) << "another thread has renewed them";
  EXPECT_EQ(test.script.num_reads, 2);
  EXPECT_FALSE(test.provider.renew_after_refusal(*test.provider.get())) << "not at once again";
  test.script.now += 10s;
  EXPECT_TRUE(test.provider.renew_after_refusal(*test.provider.get()));
  test.script.now += 10s;
  test.script.is_broken = true;
  EXPECT_FALSE(test.provider.renew_after_refusal(*test.provider.get()));
  Provided same;
  same.script.has_same_keys = true;
  EXPECT_FALSE(same.provider.renew_after_refusal(*same.provider.get()));
}

TEST(Credentials, NoneAtAllNamesThePlaces) {
  Provided test;
  test.script.is_absent = true;
  EXPECT_WMTP_ERROR(test.key(), ErrorKind::config, "no credentials for S3: nothing here");
}

using Variables = std::map<std::string, std::string>;

CredentialOptions options_with(const Variables& variables, const std::string& profile = {}) {
  CredentialOptions options;
  options.env = [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  options.profile = profile;
  return options;
}

TEST(CredentialSources, TheEnvironment) {
  const auto read = [](const Variables& variables) {
    return environment_source(options_with(variables))->read();
  };
  EXPECT_FALSE(read({}).credentials);
  const auto found = read(
      {{"AWS_ACCESS_KEY_ID", "a"}, {"AWS_SECRET_ACCESS_KEY", "b"}, {"AWS_SESSION_TOKEN", "c"}});
  EXPECT_EQ(found.credentials->session_token.reveal(), "c");
  EXPECT_WMTP_ERROR(read({{"AWS_ACCESS_KEY_ID", "a"}}), ErrorKind::config,
                    "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not");
}

struct ProfileFiles {
  test::TempDir folder;
  Variables variables{{"HOME", folder.path().string()}};

  ProfileFiles(std::string_view credentials, std::string_view config) {
    std::filesystem::create_directory(folder / ".aws");
    test::write_file(folder / ".aws/credentials", credentials);
    test::write_file(folder / ".aws/config", config);
  }
  CredentialSource::Answer read(const std::string& profile = {}) const {
    return profile_source(options_with(variables, profile))->read();
  }
};

TEST(CredentialSources, Profiles) {
  const ProfileFiles files(
      "[default]\naws_access_key_id=d\naws_secret_access_key=s\n"
      "[work]\naws_access_key_id=w\naws_secret_access_key=s\naws_session_token=t\n",
      "[default]\nregion=eu-west-3\n[profile work]\naws_access_key_id=other\n"
      "[profile only]\naws_access_key_id=o\naws_secret_access_key=s\n");
  EXPECT_EQ(files.read().credentials->access_key.reveal(), "d");
  EXPECT_EQ(files.read("work").credentials->access_key.reveal(), "w");
  EXPECT_EQ(files.read("work").credentials->session_token.reveal(), "t");
  EXPECT_EQ(files.read("only").credentials->access_key.reveal(), "o");
  EXPECT_WMTP_ERROR(files.read("absent"), ErrorKind::config, "there is no profile \"absent\" in ");
  EXPECT_EQ(read_profile(options_with(files.variables)).find("region"), "eu-west-3");
  Variables named = files.variables;
  named["AWS_PROFILE"] = "work";
  EXPECT_EQ(profile_source(options_with(named))->read().credentials->access_key.reveal(), "w");
  named["AWS_SHARED_CREDENTIALS_FILE"] = (files.folder / "other").string();
  test::write_file(files.folder / "other",
                   "[work]\naws_access_key_id=x\naws_secret_access_key=s\n");
  EXPECT_EQ(profile_source(options_with(named))->read().credentials->access_key.reveal(), "x");
}

TEST(CredentialSources, OtherWaysOfProfilesAreRefusedByNameWithTheWayOut) {
  const ProfileFiles files("[half]\naws_access_key_id=h\n",
                           "[profile sso]\nsso_session=x\n[profile process]\ncredential_process=x\n"
                           "[profile role]\nrole_arn=x\nsource_profile=y\n[profile none]\n");
  const auto refused = [&](const char* profile, const char* part) {
    EXPECT_WMTP_ERROR(files.read(profile), ErrorKind::config, part);
  };
  refused("sso", "gets its keys from single sign-on (sso_session)");
  refused("sso", "aws configure export-credentials --profile sso --format env");
  refused("process", "from another program (credential_process)");
  refused("role", "from a role of another profile (source_profile)");
  refused("none", "has no keys in");
  refused("half", "has one of aws_access_key_id");
  EXPECT_FALSE(files.read().credentials) << "no default: the next place is asked";
}

TEST(CredentialSources, TheContainerEndpointIsNearOrEncrypted) {
  const auto url = [](const char* name, const char* text) {
    return container_url(options_with({{name, text}}).env).text();
  };
  constexpr const char* kRelative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
  constexpr const char* kFull = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
  EXPECT_EQ(url(kRelative, "/v2/x?id=1"), "http://169.254.170.2/v2/x?id=1");
  for (const char* near : {"http://127.0.0.1:1/x", "http://[::1]/x", "http://169.254.170.23/v1/x",
                           "http://[fd00:ec2::23]/v1/x", "https://example.org/x"})
    EXPECT_EQ(url(kFull, near), near);
  EXPECT_WMTP_ERROR(url(kFull, "http://169.254.169.254/x"), ErrorKind::config,
                    "neither this machine nor the agent");
  EXPECT_WMTP_ERROR(url(kFull, "http://example.org/x"), ErrorKind::config, "use https");
  EXPECT_WMTP_ERROR(url(kRelative, "x"), ErrorKind::config, "does not begin with /");
}

}  // namespace
}  // namespace wmtp::s3
