// Local addresses and listening sockets, for rendezvous and Gloo. IPv4 and IPv6, numeric text.
#pragma once
#include <optional>
#include <string>

namespace wmtp::comm {

// The address of a named interface (IPv4 preferred); Error config naming those there are.
std::string interface_address(const std::string& interface);
// `host` as a numeric address if it is one of this machine's own (loopback included).
std::optional<std::string> own_address(const std::string& host);
bool is_loopback(const std::string& numeric_address);
// Our address on the route to `host`; nothing where it does not resolve or has no route.
std::optional<std::string> address_towards(const std::string& host);
// The first address that is up and not loopback.
std::optional<std::string> any_outside_address();

// A listening socket bound to address:port (address "" = all interfaces; port 0 = any free),
// close-on-exec. Nothing when the port is taken; Error comm on anything else.
struct Listener {
  int fd = -1;
  int port = 0;
};
std::optional<Listener> listen_at(const std::string& address, int port);
// Can a connection be opened within `timeout_ms`? Nothing is sent.
bool answers(const std::string& host, int port, int timeout_ms);

}  // namespace wmtp::comm
