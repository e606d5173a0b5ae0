// Requests to one tracking server: where they go, who they are from, and what its answers mean.
#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/tracking/mlflow/rest/credentials.h"
#include "wmtp/tracking/mlflow/rest/refusal.h"

namespace wmtp::tracking::mlflow {

// Its errors show neither credentials, should the server repeat them, nor control characters.
// THREADS: one at a time.
class Connection {
 public:
  using Query = std::vector<std::pair<std::string, std::string>>;

  // As Server. Warns where certificates are not checked. Sends nothing yet. BORROWS cancelled.
  Connection(std::string_view uri, http::ClientOptions options,
             const std::atomic<bool>* cancelled = nullptr);

  const http::Url& address() const { return address_; }
  const http::ClientOptions& options() const { return options_; }  // with the variables applied
  bool has_credentials() const { return !credentials_.authorization.empty(); }

  // BLOCK. `call` is what follows /api/2.0/, "mlflow/runs/get". The answer is an object.
  Json get(std::string_view call, const Query& query);
  Json post(std::string_view call, const OrderedJson& body);

  // A request with credentials for a path below the address ("/version").
  http::Request request(std::string_view method, std::string_view path) const;
  http::Request json_request(std::string_view call, const OrderedJson& body) const;  // POST
  // BLOCK. Whatever the server answers.
  http::Response send(const http::Request& request);
  // For large bodies: may last as long as bytes move, and on a connection of its own.
  http::Response upload(const http::Request& request);
  // To another server, which the tracking server named, that the machine's own authorities vouch
  // for. REQUIRES a request without credentials.
  http::Response send_elsewhere(const http::Request& request);

  // Refused or Unavailable where the answer is no success.
  void check(const http::Request& request, const http::Response& response) const;
  // The same, and the answer.
  Json object_of(const http::Request& request, const http::Response& response) const;
  // A text of the server as people may see it: one line, no secrets.
  std::string shown(std::string_view text) const;

 private:
  [[noreturn]] void refuse_redirect(const http::Request& request,
                                    const http::Response& response) const;
  std::string hint_for(int status, std::string_view code, std::string_view message) const;

  http::Url address_;
  Credentials credentials_;
  http::ClientOptions options_;
  const std::atomic<bool>* cancelled_;
  http::Client client_;
  std::optional<http::Client> uploads_, elsewhere_;
};

}  // namespace wmtp::tracking::mlflow
