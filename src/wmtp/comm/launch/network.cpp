#include "wmtp/comm/launch/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::comm {
namespace {

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using Interfaces = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

UniqueFd open_socket(int family, int type) {
  return UniqueFd(::socket(family, type | SOCK_CLOEXEC, 0));
}

Resolved resolve(const std::string& host, int port, int socket_type, int flags = 0) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = socket_type;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* name = host.empty() ? nullptr : host.c_str();
  if (::getaddrinfo(name, std::to_string(port).c_str(), &wanted, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  if (::getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text;
}

socklen_t length_of(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

struct OwnAddress {
  std::string interface, text;
  int family;
};

// IPv4 first.
std::vector<OwnAddress> own_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) found = nullptr;
  const Interfaces holder(found, &::freeifaddrs);
  std::vector<OwnAddress> result;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = found; entry; entry = entry->ifa_next)
      if (entry->ifa_addr && entry->ifa_addr->sa_family == family && (entry->ifa_flags & IFF_UP))
        result.push_back(
            {entry->ifa_name, numeric(entry->ifa_addr, length_of(entry->ifa_addr)), family});
  return result;
}

}  // namespace

std::string interface_address(const std::string& interface) {
  std::set<std::string> names;
  for (const OwnAddress& own : own_addresses()) {
    if (own.interface == interface) return own.text;
    names.insert(own.interface);
  }
  std::string known;
  for (const std::string& name : names) known += " " + name;
  throw Error(ErrorKind::config, "comm",
              fmt::format("no network interface '{}' with an address", interface),
              "distributed.interface can be one of:" + known);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

std::optional<std::string> own_address(const std::string& host) {
  std::set<std::string> mine;
  for (const OwnAddress& own : own_addresses()) mine.insert(own.text);
  const Resolved found = resolve(host, 0, SOCK_STREAM);
  for (const addrinfo* entry = found.get(); entry; entry = entry->ai_next) {
    const std::string text = numeric(entry->ai_addr, entry->ai_addrlen);
    if (mine.contains(text) || is_loopback(text)) return text;
  }
  return std::nullopt;
}

std::optional<std::string> address_towards(const std::string& host) {
  const Resolved found =
      resolve(host, 9, SOCK_DGRAM);  // connecting a datagram socket sends nothing
  for (const addrinfo* entry = found.get(); entry; entry = entry->ai_next) {
    const UniqueFd probe = open_socket(entry->ai_family, SOCK_DGRAM);
    if (probe.get() < 0 || ::connect(probe.get(), entry->ai_addr, entry->ai_addrlen) != 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof(local);
    if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&local), &length) == 0)
      return numeric(reinterpret_cast<const sockaddr*>(&local), length);
  }
  return std::nullopt;
}

std::optional<std::string> any_outside_address() {
  for (const OwnAddress& own : own_addresses())
    if (!is_loopback(own.text) && !own.text.starts_with("fe80")) return own.text;
  return std::nullopt;
}

std::optional<Listener> listen_at(const std::string& address, int port) {
  const Resolved found = resolve(address, port, SOCK_STREAM, AI_PASSIVE);
  if (!found)
    throw Error(ErrorKind::config, "comm",
                fmt::format("cannot listen at '{}': unknown address", address));
  UniqueFd socket = open_socket(found->ai_family, SOCK_STREAM);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), 2048) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    throw Error(ErrorKind::comm, "comm",
                fmt::format("cannot listen at {}:{}: {}", address, port, std::strerror(errno)));
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  const in_port_t network_port = bound.ss_family == AF_INET
                                     ? reinterpret_cast<sockaddr_in*>(&bound)->sin_port
                                     : reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port;
  return Listener{socket.release(), ntohs(network_port)};
}

bool answers(const std::string& host, int port, int timeout_ms) {
  const Resolved found = resolve(host, port, SOCK_STREAM);
  for (const addrinfo* entry = found.get(); entry; entry = entry->ai_next) {
    const UniqueFd socket = open_socket(entry->ai_family, SOCK_STREAM | SOCK_NONBLOCK);
    if (socket.get() < 0) continue;
    if (::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS) continue;
    pollfd waiting{socket.get(), POLLOUT, 0};
    int error = 0;
    socklen_t length = sizeof(error);
    if (::poll(&waiting, 1, timeout_ms) == 1 &&
        ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0)
      return true;
  }
  return false;
}

}  // namespace wmtp::comm
