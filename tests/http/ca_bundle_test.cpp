#include "wmtp/http/ca_bundle.h"

#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::http {
namespace {

class CaBundle : public testing::Test {
 protected:
  CaBundle() {
    for (const char* name : {"curl", "ssl", "known"}) test::write_file(folder / name, "PEM");
    known = {absent.c_str(), (place = (folder / "known").string()).c_str()};
  }
  std::filesystem::path find() {
    return find_ca_bundle(
        [this](const std::string& name) {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        known);
  }

  test::TempDir folder;
  std::string absent = (folder / "absent").string(), place;
  std::map<std::string, std::string> variables;
  std::vector<const char*> known;
};

TEST_F(CaBundle, VariablesComeBeforeKnownPlaces) {
  variables = {{"CURL_CA_BUNDLE", (folder / "curl").string()},
               {"SSL_CERT_FILE", (folder / "ssl").string()}};
  EXPECT_EQ(find(), folder / "curl");
  variables["CURL_CA_BUNDLE"] = "";
  EXPECT_EQ(find(), folder / "ssl");
  variables.clear();
  EXPECT_EQ(find(), folder / "known");
}

TEST_F(CaBundle, AVariableThatNamesNoFileIsAnErrorEvenWhereThereIsAnother) {
  variables = {{"CURL_CA_BUNDLE", absent}, {"SSL_CERT_FILE", (folder / "ssl").string()}};
  EXPECT_WMTP_ERROR(find(), ErrorKind::config, "CURL_CA_BUNDLE names " + absent);
  variables = {{"SSL_CERT_FILE", folder.path().string()}};  // a folder is no file
  EXPECT_WMTP_ERROR(find(), ErrorKind::config, "SSL_CERT_FILE names");
}

TEST_F(CaBundle, NoneAtAllNamesWhatWasLookedAt) {
  known = {absent.c_str(), "/nowhere/ca.pem"};
  EXPECT_WMTP_ERROR(find(), ErrorKind::config, absent + ", /nowhere/ca.pem");
  EXPECT_WMTP_ERROR(find(), ErrorKind::config, "CURL_CA_BUNDLE and SSL_CERT_FILE (not set)");
  EXPECT_WMTP_ERROR(find_ca_bundle({}, {}), ErrorKind::config, "ca-certificates");
}

TEST_F(CaBundle, TheKnownPlacesAreThoseOfDebianRhelAndSuse) {
  const auto places = known_ca_bundles();
  for (const std::string_view wanted :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem"})
    EXPECT_NE(std::ranges::find(places, wanted), places.end()) << wanted;
}

}  // namespace
}  // namespace wmtp::http
