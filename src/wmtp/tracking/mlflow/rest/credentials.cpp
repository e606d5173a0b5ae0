#include "wmtp/tracking/mlflow/rest/credentials.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::string_view kUriName = "the MLflow tracking URI";
// A secret shorter than this hides nothing, and hiding it would make holes in every text.
constexpr std::size_t kShortestSecret = 4;

[[noreturn]] void refuse_setting(std::string_view fact, std::string_view hint) {
  throw Error(ErrorKind::config, "mlflow", fact, hint);
}

std::string variable(const http::Environment& env, const char* name) {
  return env ? env(name).value_or("") : "";
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Stores that MLflow's own library opens by itself, each with what to do instead.
void refuse_other_stores(std::string_view uri) {
  struct Store {
    std::string_view begin, name;
  };
  constexpr std::array kStores = {
      Store{"databricks", "Databricks"},      Store{"file:", "a folder of files"},
      Store{"sqlite:", "an SQLite database"}, Store{"postgresql", "a PostgreSQL database"},
      Store{"mysql", "a MySQL database"},     Store{"mssql", "an SQL Server database"},
  };
  constexpr std::string_view kServe =
      "start `mlflow server` on it and give that server's http(s) address";
  for (const Store& store : kStores)
    if (uri.starts_with(store.begin))
      refuse_setting(
          fmt::format("{} names {}: only servers over http(s) are supported", kUriName, store.name),
          store.begin == "databricks" ? "give the http(s) address of an MLflow tracking server"
                                      : kServe);
  if (uri.find(':') == uri.npos)
    refuse_setting(fmt::format("{} is a path: only servers over http(s) are supported", kUriName),
                   kServe);
}

bool is_true(const std::string& value, const char* name) {
  std::string lower;
  for (const char c : value) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "true" || lower == "1") return true;
  if (lower.empty() || lower == "false" || lower == "0") return false;
  refuse_setting(fmt::format("{} is none of true, false, 1, 0", name), "set it so, or unset it");
}

std::string authorization_of(const std::string& token, const std::string& user,
                             const std::string& password) {
  for (const char c : token)
    if (c <= ' ' || c >= 0x7F)
      refuse_setting("MLFLOW_TRACKING_TOKEN has blanks, control or other than ASCII characters",
                     "was it copied with its line end?");
  if (!token.empty()) return "Bearer " + token;
  if (user.empty() != password.empty())
    refuse_setting(
        fmt::format("MLFLOW_TRACKING_{} is set and MLFLOW_TRACKING_{} is not",
                    user.empty() ? "PASSWORD" : "USERNAME", user.empty() ? "USERNAME" : "PASSWORD"),
        "set both, or MLFLOW_TRACKING_TOKEN, or none of them");
  if (user.find(':') != user.npos)
    refuse_setting("MLFLOW_TRACKING_USERNAME has a colon in it",
                   "a server would take what follows it for the password");
  return user.empty() ? "" : "Basic " + base64(user + ":" + password);
}

}  // namespace

http::Url parse_tracking_uri(std::string_view uri) {
  if (uri.empty())
    refuse_setting(fmt::format("{} is empty", kUriName),
                   "set mlflow.tracking_uri or MLFLOW_TRACKING_URI");
  refuse_other_stores(uri);
  http::Url url = http::parse_url(uri, kUriName);
  if (!url.user_info.empty())
    refuse_setting(fmt::format("{} has a user name or password in it", kUriName),
                   "URLs end up in logs and process lists: set MLFLOW_TRACKING_USERNAME and "
                   "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN");
  if (!url.query.empty())
    refuse_setting(fmt::format("{} has a query", kUriName), "leave out what begins with ?");
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

Credentials read_credentials(const http::Environment& env) {
  const std::string token = variable(env, "MLFLOW_TRACKING_TOKEN");
  const std::string user = variable(env, "MLFLOW_TRACKING_USERNAME");
  const std::string password = variable(env, "MLFLOW_TRACKING_PASSWORD");
  Credentials credentials;
  credentials.authorization = authorization_of(token, user, password);
  const std::string value =
      credentials.authorization.substr(credentials.authorization.find(' ') + 1);
  for (const std::string& secret : {value, token, password, user})
    if (secret.size() >= kShortestSecret) credentials.secrets.push_back(secret);
  return credentials;
}

void apply_tls_variables(http::ClientOptions& options) {
  const char* insecure_name = "MLFLOW_TRACKING_INSECURE_TLS";
  const char* file_name = "MLFLOW_TRACKING_SERVER_CERT_PATH";
  const bool is_insecure = is_true(variable(options.env, insecure_name), insecure_name);
  const std::string file = variable(options.env, file_name);
  if (is_insecure && !file.empty())
    refuse_setting(fmt::format("{} and {} are both set", insecure_name, file_name),
                   "the one asks for no check, the other for a strict one: unset one of them");
  if (is_insecure) options.verify_tls = false;
  if (file.empty()) return;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored) || ::access(file.c_str(), R_OK) != 0)
    refuse_setting(
        fmt::format("{} names {}, which is no file that can be read", file_name, printable(file)),
        "name a PEM file with the certificate of the server's authority");
  options.ca_file = file;
}

}  // namespace wmtp::tracking::mlflow
