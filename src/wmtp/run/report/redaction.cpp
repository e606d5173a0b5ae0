#include "wmtp/run/report/redaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/printable.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kShortestSecret = 6;

constexpr std::array kCredentialVariables{
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "DATABRICKS_TOKEN",
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "WMTP_RUN_TOKEN",
};

constexpr std::array<std::string_view, 3> kHiddenSections{"mlflow", "storage", "logging"};

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// A password may hold a slash that should have been encoded, so all up to the last "@" goes.
void strip_url(std::string& text, std::size_t authority) {
  const std::size_t end = std::min(text.find_first_of(" \t\r\n\"'<>", authority), text.size());
  std::string word = text.substr(authority, end - authority);
  if (const std::size_t at = word.rfind('@'); at != word.npos) word.erase(0, at + 1);
  if (const std::size_t query = word.find_first_of("?#"); query != word.npos)
    word.replace(query, word.npos, "?...");
  text.replace(authority, end - authority, word);
}

// "--override=mlflow.tracking_uri=x" and "mlflow.tracking_uri=x" without x.
std::string without_hidden_value(const std::string& word) {
  constexpr std::string_view kFlag = "--override=";
  const std::size_t key = word.starts_with(kFlag) ? kFlag.size() : 0;
  const std::size_t equals = word.find('=', key);
  if (equals == word.npos) return word;
  const std::string section = word.substr(key, word.find_first_of(".=", key) - key);
  const bool hides =
      std::find(kHiddenSections.begin(), kHiddenSections.end(), section) != kHiddenSections.end();
  return hides ? word.substr(0, equals + 1) + kHidden : word;
}

}  // namespace

Redactor::Redactor(const config::Environment& env) {
  for (const char* name : kCredentialVariables)
    if (const auto value = env ? env(name) : std::nullopt;
        value && value->size() >= kShortestSecret)
      secrets_.push_back(*value);
  std::stable_sort(secrets_.begin(), secrets_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Redactor::operator()(std::string_view text) const {
  std::string out(text);
  for (const std::string& secret : secrets_) replace_all(out, secret, kHidden);
  constexpr std::string_view kMark = "://";
  for (std::size_t at = out.find(kMark); at != out.npos; at = out.find(kMark, at + kMark.size()))
    strip_url(out, at + kMark.size());
  return tracking::valid_utf8(out);
}

std::string redacted_command(const std::vector<std::string>& words, const Redactor& redact) {
  std::string line = "wmtp";
  for (const std::string& word : words)
    line += " " + shell_word(redact(without_hidden_value(word)));
  return line;
}

}  // namespace wmtp::run
