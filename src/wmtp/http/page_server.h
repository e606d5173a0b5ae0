// A server of one page, for browsers of this machine alone: GET and HEAD of "/", nothing else is
// there and nothing is ever read from a request but its head. One thread, no request waits for
// another: a client that is slow, or says nothing, costs its own connection.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/core/time.h"
#include "wmtp/core/unique_fd.h"
#include "wmtp/http/page_request.h"

namespace wmtp::http {

struct PageServerOptions {
  LoopbackAddress address = {};
  std::string policy = {};  // Content-Security-Policy of the page
  std::chrono::milliseconds request_limit = std::chrono::seconds(5);  // for a request's head
  std::chrono::milliseconds answer_limit = std::chrono::seconds(30);  // to take the page
  // One more takes the place of the request that has been in the making for longest.
  std::size_t max_clients = 16;
};

class PageServer {
 public:
  // Listens from here on. Error config where the port is taken or not ours to take.
  explicit PageServer(PageServerOptions options);
  ~PageServer();
  PageServer(PageServer&&) noexcept;

  std::uint16_t port() const { return port_; }
  std::string url() const;  // "http://127.0.0.1:8000/"

  // What is answered from now on.
  void set_page(std::string page);
  // BLOCKS for `wait`, or until `wake_fd` can be read: answers what arrives meanwhile.
  void serve(std::chrono::milliseconds wait, int wake_fd);

 private:
  struct Client;
  bool has_room() const;
  void accept_clients();
  void advance(Client& client) const;
  void receive(Client& client) const;
  void send(Client& client) const;
  void answer(Client& client, const PageRequest& request) const;
  void expire(Client& client) const;

  PageServerOptions options_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::shared_ptr<const std::string> page_;
  std::vector<Client> clients_;  // the oldest first
};

}  // namespace wmtp::http
