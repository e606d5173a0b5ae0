#include "wmtp/run/plan/speed/loopback.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "wmtp/comm/launch/network.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/core/unique_fd.h"
#include "wmtp/run/plan/speed/thread_clock.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kBytes = std::size_t{32} << 20, kMessage = std::size_t{1} << 20;
constexpr double kStartS = 120e-6;  // of a collective of Gloo (benchmarks/scaling.md)

[[noreturn]] void cannot_measure(const char* what) {
  throw Error(
      ErrorKind::io, "plan",
      std::string("cannot measure the loopback device: ") + what + ": " + std::strerror(errno),
      "use --no-calibrate");
}

struct Connection {
  UniqueFd sends, receives;
};

Connection connect_loopback() {
  const auto listener = comm::listen_at("127.0.0.1", 0);
  if (!listener) cannot_measure("listen");
  const UniqueFd listening(listener->fd);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<in_port_t>(listener->port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Connection connection;
  connection.sends.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(connection.sends.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0)
    cannot_measure("connect");
  connection.receives.reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.receives) cannot_measure("accept");
  return connection;
}

}  // namespace

// A rank sends a byte for each one that it receives, so both ends' time is its own.
LinkModel measure_loopback() {
  const Connection connection = connect_loopback();
  double sending_s = 0;
  const auto start = Clock::now();
  std::jthread sender([&] {
    const std::vector<char> message(kMessage, 1);
    const double begin = thread_cpu_seconds();
    for (std::size_t sent = 0; sent < kBytes;) {
      const ssize_t part = ::send(connection.sends.get(), message.data(), kMessage, MSG_NOSIGNAL);
      if (part <= 0) return;  // the other end sees the end
      sent += static_cast<std::size_t>(part);
    }
    sending_s = thread_cpu_seconds() - begin;
  });
  std::vector<char> message(kMessage);
  const double begin = thread_cpu_seconds();
  for (std::size_t received = 0; received < kBytes;) {
    const ssize_t part = ::recv(connection.receives.get(), message.data(), kMessage, 0);
    if (part <= 0) cannot_measure("receive");
    received += static_cast<std::size_t>(part);
  }
  const double receiving_s = thread_cpu_seconds() - begin;
  const double took = seconds_since(start);
  sender.join();
  const double busy = sending_s + receiving_s;
  return {.bytes_per_s = static_cast<double>(kBytes) / std::max(took, busy),
          .latency_s = 0,
          .start_s = kStartS,
          .compute_s_per_byte = busy / static_cast<double>(kBytes)};
}

}  // namespace wmtp::run
