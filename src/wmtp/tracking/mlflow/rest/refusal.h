// Answers of an MLflow server that are no success.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::tracking::mlflow {

// The server understood the request and refuses it: the same request will never be taken. Text and
// code are the server's own. Kind config.
class Refused : public Error {
 public:
  Refused(int status, std::string code, std::string_view fact, std::string_view hint = {},
          std::source_location where = std::source_location::current());
  int status() const { return status_; }             // of HTTP
  const std::string& code() const { return code_; }  // "RESOURCE_DOES_NOT_EXIST"; may be empty
  // About what was sent: without its bad record a batch would be taken. Otherwise it is about the
  // way there (a redirect, credentials, another service, a run that is gone), and a user who mends
  // that wants every record sent.
  bool is_about_content() const;

 private:
  int status_;
  std::string code_;
};

// 408, 429 and 5xx: the same request may be taken later. Kind comm.
class Unavailable : public Error {
 public:
  Unavailable(int status, std::optional<std::chrono::seconds> retry_after, std::string_view fact,
              std::string_view hint = {},
              std::source_location where = std::source_location::current());
  int status() const { return status_; }
  // How long the server wants to be left alone, where it says so.
  std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }

 private:
  int status_;
  std::optional<std::chrono::seconds> retry_after_;
};

}  // namespace wmtp::tracking::mlflow
