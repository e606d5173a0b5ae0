#include "wmtp/tracking/mlflow/rest/connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/log.h"
#include "wmtp/http/retry.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/mlflow/rest/answers.h"

namespace wmtp::tracking::mlflow {
namespace {

http::ClientOptions with_tls_variables(http::ClientOptions options) {
  apply_tls_variables(options);
  return options;
}

bool is_page(std::string_view body) {
  const std::size_t begin = body.find_first_not_of(" \t\r\n");
  return begin != body.npos && body[begin] == '<';
}

// Where a redirect leads, without what may be a secret.
std::string place_named_by(std::string_view location) {
  try {
    http::Url url = http::parse_url(location, "location");
    url.query.clear();
    return url.shown();
  } catch (const Error&) {
    const std::string_view path = location.substr(0, location.find_first_of("?#"));
    return path.starts_with('/') && !path.starts_with("//") ? std::string(path)
                                                            : "a place that is no http(s) URL";
  }
}

}  // namespace

Connection::Connection(std::string_view uri, http::ClientOptions options,
                       const std::atomic<bool>* cancelled)
    : address_(parse_tracking_uri(uri)),
      credentials_(read_credentials(options.env)),
      options_(with_tls_variables(std::move(options))),
      cancelled_(cancelled),
      client_(options_) {
  if (address_.is_tls() && !options_.verify_tls)
    log::warn("mlflow",
              "the certificate of {} is not checked (MLFLOW_TRACKING_INSECURE_TLS): anyone on the "
              "way can read and change what is sent, credentials included",
              address_.authority());
}

Json Connection::get(std::string_view call, const Query& query) {
  http::Request made = request("GET", fmt::format("/api/2.0/{}", call));
  made.url.query = http::query_text(query);
  return object_of(made, send(made));
}

Json Connection::post(std::string_view call, const OrderedJson& body) {
  const http::Request made = json_request(call, body);
  return object_of(made, send(made));
}

http::Request Connection::request(std::string_view method, std::string_view path) const {
  http::Request made;
  made.method = method;
  made.url = address_;
  made.url.path += path;
  if (has_credentials()) made.headers.add("Authorization", credentials_.authorization);
  made.cancelled = cancelled_;
  return made;
}

http::Request Connection::json_request(std::string_view call, const OrderedJson& body) const {
  http::Request made = request("POST", fmt::format("/api/2.0/{}", call));
  made.headers.add("Content-Type", "application/json");
  made.body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return made;
}

http::Response Connection::send(const http::Request& request) {
  return client_.send(request);
}

http::Response Connection::upload(const http::Request& request) {
  if (!uploads_) {
    // Behind the last byte the server may be silent for long: it hands the file on.
    http::ClientOptions patient = options_;
    patient.stall_limit = std::max(options_.stall_limit, options_.total_limit);
    patient.total_limit = {};
    uploads_.emplace(std::move(patient));
  }
  return uploads_->send(request);
}

http::Response Connection::send_elsewhere(const http::Request& request) {
  WMTP_CHECK(!request.headers.has("Authorization"), "credentials of another server");
  if (!elsewhere_) {
    http::ClientOptions other = options_;
    other.verify_tls = true;
    other.ca_file.clear();
    elsewhere_.emplace(std::move(other));
  }
  return elsewhere_->send(request);
}

void Connection::check(const http::Request& request, const http::Response& response) const {
  if (response.is_success()) return;
  const int status = response.status;
  if (status >= 300 && status < 400) refuse_redirect(request, response);
  const ErrorAnswer error = parse_error_answer(response.body);
  const bool is_text = !error.code.empty() || !is_page(response.body);
  const std::string fact = fmt::format(
      "{}: answered with {}{}{}{}", http::shown(request), status, error.code.empty() ? "" : " ",
      error.code,
      !is_text ? " and a page for browsers"
               : fmt::format("{}{}", response.body.empty() ? "" : ": ", shown(error.message)));
  if (http::is_worth_retry(status, true))
    throw Unavailable(status, http::retry_after(response.headers), fact);
  throw Refused(status, error.code, fact, hint_for(status, error.code, error.message));
}

Json Connection::object_of(const http::Request& request, const http::Response& response) const {
  check(request, response);
  try {
    return parse_answer(response.body, http::shown(request));
  } catch (const Error& error) {
    throw Error(error.kind(), error.module(), shown(error.fact()), error.hint(), error.where());
  }
}

std::string Connection::shown(std::string_view text) const {
  std::string clean(text);
  for (const std::string& secret : credentials_.secrets)
    for (std::size_t at = 0; (at = clean.find(secret, at)) != clean.npos; at += 3)
      clean.replace(at, secret.size(), "***");
  return visible(clean);
}

void Connection::refuse_redirect(const http::Request& request,
                                 const http::Response& response) const {
  const std::string place = place_named_by(response.headers.find("Location").value_or(""));
  throw Refused(response.status, "",
                fmt::format("{}: answered with {}, which points to {}; redirects are not followed",
                            http::shown(request), response.status, shown(place)),
                "if that is the server, give its address; a page to log in means that the server "
                "wants other credentials");
}

std::string Connection::hint_for(int status, std::string_view code,
                                 std::string_view message) const {
  if (message.find("Invalid Host header") != message.npos)
    return fmt::format("start the server with --allowed-hosts {}", address_.authority());
  if (status == 401 || status == 403)
    return has_credentials()
               ? "the credentials of MLFLOW_TRACKING_* are not accepted, or may not do this"
               : "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
                 "MLFLOW_TRACKING_PASSWORD";
  if (code.empty() && status != 413)
    return "is this the address of an MLflow server, its path included?";
  return "";
}

}  // namespace wmtp::tracking::mlflow
