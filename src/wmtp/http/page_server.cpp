#include "wmtp/http/page_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp::http {
namespace {

constexpr std::chrono::seconds kDrainLimit{1};
constexpr std::size_t kMaxDrainedBytes = std::size_t{64} << 10;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

SocketAddress socket_address(const LoopbackAddress& address) {
  SocketAddress out{};
  if (address.is_v6)
    out.v6 = {.sin6_family = AF_INET6,
              .sin6_port = htons(address.port),
              .sin6_flowinfo = 0,
              .sin6_addr = IN6ADDR_LOOPBACK_INIT,
              .sin6_scope_id = 0};
  else
    out.v4 = {.sin_family = AF_INET,
              .sin_port = htons(address.port),
              .sin_addr = {htonl(INADDR_LOOPBACK)},
              .sin_zero = {}};
  return out;
}

std::string host_text(const LoopbackAddress& address) {
  return address.is_v6 ? "[::1]" : "127.0.0.1";
}

UniqueFd listen_at(const LoopbackAddress& address) {
  const int family = address.is_v6 ? AF_INET6 : AF_INET;
  UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  const SocketAddress at = socket_address(address);
  const socklen_t size = address.is_v6 ? sizeof at.v6 : sizeof at.v4;
  if (listener && ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(listener.get(), &at.any, size) == 0 && ::listen(listener.get(), SOMAXCONN) == 0)
    return listener;
  throw Error(ErrorKind::config, "http",
              fmt::format("cannot listen on {}:{}: {}", host_text(address), address.port,
                          std::strerror(errno)),
              "name another port; 0 takes a free one");
}

std::uint16_t bound_port(const UniqueFd& listener) {
  SocketAddress at{};
  socklen_t size = sizeof at;
  WMTP_CHECK(::getsockname(listener.get(), &at.any, &size) == 0, "a listening socket has a port");
  return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int milliseconds_until(Clock::time_point when, Clock::time_point now) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

struct PageServer::Client {
  // Draining: the answer is out, and what the client still sends is thrown away; a socket that is
  // closed over unread bytes would take the answer back.
  enum class State { receiving, sending, draining, over };
  UniqueFd fd;
  Clock::time_point deadline;
  State state = State::receiving;
  std::string head = {}, answer = {};
  std::shared_ptr<const std::string> body = {};  // behind the answer; null: none
  std::size_t num_sent = 0, num_drained = 0;
};

PageServer::PageServer(PageServerOptions options)
    : options_(std::move(options)),
      listener_(listen_at(options_.address)),
      port_(bound_port(listener_)),
      page_(std::make_shared<const std::string>()) {}

PageServer::~PageServer() = default;
PageServer::PageServer(PageServer&&) noexcept = default;

std::string PageServer::url() const {
  return fmt::format("http://{}:{}/", host_text(options_.address), port_);
}

void PageServer::set_page(std::string page) {
  page_ = std::make_shared<const std::string>(std::move(page));
}

bool PageServer::has_room() const {
  return clients_.size() < options_.max_clients ||
         std::ranges::any_of(clients_, [](const Client& client) {
           return client.state == Client::State::receiving;
         });
}

void PageServer::accept_clients() {
  while (has_room()) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;  // none waits, or no descriptor is left: the next round tries again
    if (clients_.size() >= options_.max_clients)
      clients_.erase(std::ranges::find_if(
          clients_, [](const Client& client) { return client.state == Client::State::receiving; }));
    clients_.push_back({.fd = std::move(fd), .deadline = Clock::now() + options_.request_limit});
  }
}

void PageServer::answer(Client& client, const PageRequest& request) const {
  const bool is_page = request.status == 200;
  const std::string text =
      is_page ? "" : fmt::format("{} {}\n", request.status, reason_of(request.status));
  client.answer = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n"
      "Cache-Control: no-store\r\nContent-Security-Policy: {}; frame-ancestors 'none'\r\n"
      "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n"
      "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nConnection: close\r\n{}\r\n",
      request.status, reason_of(request.status), is_page ? "text/html" : "text/plain",
      is_page ? page_->size() : text.size(), options_.policy,
      request.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (!request.without_body) client.answer += text;
  if (is_page && !request.without_body) client.body = page_;
  client.state = Client::State::sending;
  client.deadline = Clock::now() + options_.answer_limit;
  send(client);
}

void PageServer::receive(Client& client) const {
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::recv(client.fd.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      if (size == 0 || !would_block()) client.state = Client::State::over;
      return;
    }
    if (client.state == Client::State::draining) {
      client.num_drained += static_cast<std::size_t>(size);
      if (client.num_drained > kMaxDrainedBytes) client.state = Client::State::over;
      if (client.state == Client::State::over) return;
      continue;
    }
    client.head.append(buffer.data(), static_cast<std::size_t>(size));
    for (const std::string_view end : {"\r\n\r\n", "\n\n"})
      if (const std::size_t place = client.head.find(end); place <= kMaxRequestBytes)
        return answer(client, judge_request(client.head.substr(0, place + end.size())));
    if (client.head.size() > kMaxRequestBytes) return answer(client, {431, false});
  }
}

void PageServer::send(Client& client) const {
  const std::size_t body_size = client.body ? client.body->size() : 0;
  while (client.num_sent < client.answer.size() + body_size) {
    const bool in_body = client.num_sent >= client.answer.size();
    const std::string& part = in_body ? *client.body : client.answer;
    const std::size_t begin = client.num_sent - (in_body ? client.answer.size() : 0);
    const ssize_t size =
        ::send(client.fd.get(), part.data() + begin, part.size() - begin, MSG_NOSIGNAL);
    if (size < 0) {
      if (!would_block()) client.state = Client::State::over;
      return;
    }
    client.num_sent += static_cast<std::size_t>(size);
  }
  ::shutdown(client.fd.get(), SHUT_WR);
  client.body.reset();
  client.state = Client::State::draining;
  client.deadline = Clock::now() + kDrainLimit;
}

void PageServer::advance(Client& client) const {
  if (client.state == Client::State::sending)
    send(client);
  else
    receive(client);
}

void PageServer::expire(Client& client) const {
  if (client.state == Client::State::receiving)
    answer(client, {408, false});
  else
    client.state = Client::State::over;
}

void PageServer::serve(std::chrono::milliseconds wait, int wake_fd) {
  const Clock::time_point until = Clock::now() + wait;
  for (;;) {
    Clock::time_point next = until;
    std::vector<pollfd> watched{{wake_fd, POLLIN, 0},
                                {has_room() ? listener_.get() : -1, POLLIN, 0}};
    for (const Client& client : clients_) {
      const bool sends = client.state == Client::State::sending;
      watched.push_back({client.fd.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      next = std::min(next, client.deadline);
    }
    ::poll(watched.data(), watched.size(), milliseconds_until(next, Clock::now()));
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (watched[i + 2].revents != 0) advance(clients_[i]);
      if (clients_[i].deadline <= Clock::now()) expire(clients_[i]);
    }
    std::erase_if(clients_,
                  [](const Client& client) { return client.state == Client::State::over; });
    if (watched[1].revents != 0) accept_clients();
    if (watched[0].revents != 0 || Clock::now() >= until) return;
  }
}

}  // namespace wmtp::http
