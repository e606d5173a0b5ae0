#include <array>
#include <map>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/mlflow/rest/artifacts.h"
#include "wmtp/tracking/mlflow/rest/credentials.h"
#include "wmtp/tracking/mlflow/rest/file_source.h"

namespace wmtp::tracking::mlflow {
namespace {

http::Environment variables(std::map<std::string, std::string> table) {
  return [table = std::move(table)](const std::string& name) -> std::optional<std::string> {
    const auto found = table.find(name);
    return found == table.end() ? std::nullopt : std::optional(found->second);
  };
}

Credentials credentials(std::map<std::string, std::string> table) {
  return read_credentials(variables(std::move(table)));
}

TEST(MlflowAddress, APathIsThePrefixOfAllCalls) {
  EXPECT_EQ(parse_tracking_uri("https://Host:8443").text(), "https://host:8443");
  EXPECT_EQ(parse_tracking_uri("http://h/a/b//").text(), "http://h/a/b");
}

TEST(MlflowAddress, OtherStoresAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"databricks", "names Databricks"},
      {"databricks://profile", "names Databricks"},
      {"databricks-uc", "names Databricks"},
      {"file:///mlruns", "names a folder of files"},
      {"sqlite:///mlflow.db", "names an SQLite database"},
      {"postgresql+psycopg2://u:sesame@h/db", "names a PostgreSQL database"},
      {"mysql://u:sesame@h/db", "names a MySQL database"},
      {"mssql+pyodbc://h/db", "names an SQL Server database"},
      {"./mlruns", "is a path"},
      {"/data/mlruns", "is a path"},
      {"", "is empty"},
      {"ftp://h", "begins with neither http:// nor https://"},
      {"http://user:sesame@h", "has a user name or password in it"},
      {"http://h/?a=sesame", "has a query"},
      {"http://h/a b", "has the byte 0x20 in its path"},
  };
  for (const auto& [uri, text] : cases) try {
      parse_tracking_uri(uri);
      ADD_FAILURE() << uri;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("the MLflow tracking URI ") + text));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("sesame")));
      EXPECT_NE(error.hint(), "");
    }
}

TEST(MlflowCredentials, TokenThenNameAndPassword) {
  EXPECT_EQ(credentials({}).authorization, "");
  EXPECT_EQ(read_credentials({}).authorization, "");
  const std::map<std::string, std::string> all = {{"MLFLOW_TRACKING_TOKEN", "abcd"},
                                                  {"MLFLOW_TRACKING_USERNAME", "Aladdin"},
                                                  {"MLFLOW_TRACKING_PASSWORD", "open sesame"}};
  EXPECT_EQ(credentials(all).authorization, "Bearer abcd");
  auto without_token = all;
  without_token.erase("MLFLOW_TRACKING_TOKEN");
  const Credentials basic = credentials(without_token);
  EXPECT_EQ(basic.authorization, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");  // the example of RFC 7617
  EXPECT_THAT(basic.secrets, testing::UnorderedElementsAre(
                                 "QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "open sesame", "Aladdin"));
}

TEST(MlflowCredentials, HalvesAndBrokenOnesAreRefusedWithoutBeingShown) {
  const std::pair<std::map<std::string, std::string>, const char*> cases[] = {
      {{{"MLFLOW_TRACKING_USERNAME", "sesame"}}, "USERNAME is set and MLFLOW_TRACKING_PASSWORD is"},
      {{{"MLFLOW_TRACKING_PASSWORD", "sesame"}}, "PASSWORD is set and MLFLOW_TRACKING_USERNAME is"},
      {{{"MLFLOW_TRACKING_TOKEN", "sesame\n"}}, "MLFLOW_TRACKING_TOKEN has blanks"},
      {{{"MLFLOW_TRACKING_TOKEN", "sesame\xC3\xA9"}}, "MLFLOW_TRACKING_TOKEN has blanks"},
      {{{"MLFLOW_TRACKING_USERNAME", "se:same"}, {"MLFLOW_TRACKING_PASSWORD", "x"}},
       "has a colon"}};
  for (const auto& [table, text] : cases) try {
      credentials(table);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::config);
      EXPECT_THAT(error.what(), testing::HasSubstr(text));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("sesame")));
    }
}

TEST(MlflowTls, IsCheckedUnlessAVariableSaysOtherwise) {
  const test::TempDir folder;
  const std::string file = folder.path() / "ca.pem";
  test::write_file(file, "certificate\n");
  const auto applied = [](std::map<std::string, std::string> table) {
    http::ClientOptions options;
    options.env = variables(std::move(table));
    apply_tls_variables(options);
    return options;
  };
  const std::string insecure = "MLFLOW_TRACKING_INSECURE_TLS",
                    path = "MLFLOW_TRACKING_SERVER_CERT_PATH";
  EXPECT_TRUE(applied({}).verify_tls);
  for (const char* no : {"", "false", "0", "False"})
    EXPECT_TRUE(applied({{insecure, no}}).verify_tls);
  for (const char* yes : {"true", "TRUE", "1"}) EXPECT_FALSE(applied({{insecure, yes}}).verify_tls);
  EXPECT_EQ(applied({{path, file}}).ca_file, file);
  EXPECT_WMTP_ERROR(applied({{insecure, "maybe"}}), ErrorKind::config, "none of true, false, 1, 0");
  EXPECT_WMTP_ERROR(applied({{insecure, "1"}, {path, file}}), ErrorKind::config, "are both set");
  EXPECT_WMTP_ERROR(applied({{path, folder.path()}}), ErrorKind::config,
                    "no file that can be read");
}

TEST(MlflowArtifacts, OnlyStoresBehindTheServerAreWrittenTo) {
  const http::Url address = parse_tracking_uri("https://host:5000/prefix");
  EXPECT_EQ(artifact_folder("mlflow-artifacts:/1/a/artifacts", address), "1/a/artifacts");
  EXPECT_EQ(artifact_folder("mlflow-artifacts://host:5000/1/a%20b/", address), "1/a b");
  EXPECT_EQ(artifact_folder("mlflow-artifacts:/", address), "");
  for (const auto& [uri, text] : std::initializer_list<std::pair<const char*, const char*>>{
           {"s3://bucket/x", "scheme \"s3\""},
           {"/mnt/artifacts", "scheme \"file\""},
           {"./a:b", "scheme \"file\""},
           {"dbfs:/x", "scheme \"dbfs\""},
           {"\x1b[31m:/x", "scheme \"\\u001b[31m\""},
           {"mlflow-artifacts://evil/x", "go to the server evil, not to host:5000"}})
    EXPECT_WMTP_ERROR(artifact_folder(uri, address), ErrorKind::config, text);
  for (const char* uri : {"mlflow-artifacts:/a/../b", "mlflow-artifacts:/a/%2e%2E/b",
                          "mlflow-artifacts:/a//b", "mlflow-artifacts:/./b"})
    EXPECT_WMTP_ERROR(artifact_folder(uri, address), ErrorKind::data, "\"..\" in its path");
}

TEST(MlflowArtifacts, TypesFollowFromNames) {
  EXPECT_EQ(content_type("a/report.html"), "text/html");
  EXPECT_EQ(content_type("manifest.json"), "application/json");
  EXPECT_EQ(content_type("config.yaml"), "text/plain");
  EXPECT_EQ(content_type("json"), "application/octet-stream");
}

TEST(MlflowArtifacts, AFileThatShrinksIsNotSentShort) {
  const test::TempDir folder;
  const std::filesystem::path file = folder.path() / "f";
  test::write_file(file, "0123456789");
  FileSource source(file);
  std::array<std::byte, 4> piece{};
  source.select(2, 6);
  EXPECT_EQ(source.size(), 6U);
  EXPECT_EQ(source.read(piece), 4U);
  EXPECT_EQ(static_cast<char>(piece[0]), '2');
  EXPECT_EQ(source.read(piece), 2U);
  EXPECT_EQ(source.read(piece), 0U);
  source.rewind();
  std::filesystem::resize_file(file, 3);
  EXPECT_EQ(source.read(piece), 1U);
  EXPECT_WMTP_ERROR(source.read(piece), ErrorKind::io, "has become shorter than the 10 bytes");
  EXPECT_WMTP_ERROR(FileSource(folder.path()), ErrorKind::io, "is no regular file");
  EXPECT_WMTP_ERROR(FileSource(folder.path() / "no"), ErrorKind::io, "No such file");
  std::filesystem::create_symlink(file, folder.path() / "link");
  EXPECT_WMTP_ERROR(FileSource(folder.path() / "link"), ErrorKind::io, "cannot read");
}

TEST(MlflowRefusals, OnlySomeAreAboutWhatWasSent) {
  EXPECT_TRUE(Refused(400, "INVALID_PARAMETER_VALUE", "x").is_about_content());
  EXPECT_TRUE(Refused(413, "", "x").is_about_content());
  for (const int status : {0, 301, 400, 401, 403, 404, 405})
    EXPECT_FALSE(Refused(status, "", "x").is_about_content()) << status;
  EXPECT_FALSE(Refused(404, "RESOURCE_DOES_NOT_EXIST", "x").is_about_content());
  EXPECT_EQ(Refused(400, "", "x").kind(), ErrorKind::config);
  EXPECT_EQ(Unavailable(503, std::nullopt, "x").kind(), ErrorKind::comm);
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
