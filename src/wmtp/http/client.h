// The one way to servers: HTTP/1.1 over libcurl. Redirects are answers like any other and are not
// followed; nothing but what the request says and User-Agent, Host, Accept, Content-Length is sent.
// Proxies are those of the environment, as curl has it (http_proxy, HTTPS_PROXY, NO_PROXY, ...).
#pragma once
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "wmtp/http/ca_bundle.h"
#include "wmtp/http/failure.h"
#include "wmtp/http/message.h"

namespace wmtp::http {

struct ClientOptions {
  // Zero: no limit. All of them are monotonic.
  std::chrono::milliseconds connect_limit{10'000};  // name, TCP and TLS
  std::chrono::milliseconds total_limit{120'000};   // of one request, its body and its answer
  std::chrono::milliseconds stall_limit{30'000};    // without a byte of body or head, either way
  bool verify_tls = true;  // off only where a user's setting says so, which the caller warns of
  std::filesystem::path ca_file;  // empty: find_ca_bundle(env), at the first https request
  Environment env;
  // Authorization and other secret headers over http to other machines: Error config otherwise.
  bool allow_plain_credentials = false;
};

// Error config where libcurl cannot be opened on this machine: for who wants to know before the
// first request. THREADS: any.
void require_libcurl();

// A pool of kept connections. THREADS: one at a time; other threads use Clients of their own.
// REQUIRES that the process ignores SIGPIPE, as the program does: libcurl before 7.87 writes to TLS
// connections without MSG_NOSIGNAL.
class Client {
 public:
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // BLOCKS until the answer is there. Failure where there is none (a caught one leaves the client
  // usable), Error config where the request cannot be sent at all: user info in its URL, a header
  // that is none, no libcurl, no CA bundle. A request that a kept connection took and dropped
  // without a byte of answer is sent once more by libcurl itself.
  Response send(const Request& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What libcurl says of itself ("libcurl/7.88.1 OpenSSL/3.0.17"). Error config where it cannot be
// opened. THREADS: any.
std::string curl_version();

}  // namespace wmtp::http
