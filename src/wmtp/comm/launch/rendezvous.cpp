#include "wmtp/comm/launch/rendezvous.h"

#include <fmt/format.h>

#include <charconv>
#include <future>
#include <thread>

#include "wmtp/comm/launch/authenticate.h"
#include "wmtp/comm/launch/network.h"
#include "wmtp/comm/launch/private_folder.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kConnectPatience{2'000};
constexpr milliseconds kRetryPause{100};

struct Address {
  std::string host;
  std::vector<int> ports;
};

// The prefix names the run without giving the token away.
std::string run_prefix(const LaunchEnv& launch) {
  const std::string id = !launch.token.empty() ? "token " + launch.token : "run " + launch.run_id;
  return fmt::format("wmtp/{}/{}", sha256_hex(id).substr(0, 32), launch.restart_count);
}

std::string server_proof(const LaunchEnv& launch) {
  return hmac_sha256_hex(launch.token, "server");
}

// A store that speaks another protocol may never answer: the call is then left behind in its
// thread.
std::optional<Store> connect_within(const Address& address, int port, milliseconds timeout) {
  auto promise = std::make_shared<std::promise<Store>>();
  std::future<Store> answer = promise->get_future();
  std::thread([promise, host = address.host, port, timeout] {
    try {
      Store store = Store::tcp_client(host, port, timeout);
      store.add("wmtp/ping", 1);
      promise->set_value(std::move(store));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }).detach();
  if (answer.wait_for(timeout) != std::future_status::ready) return std::nullopt;
  try {
    return answer.get();
  } catch (const Error&) {
    return std::nullopt;
  }
}

Store join_agent(const LaunchEnv& launch, const RendezvousOptions& options) {
  const Address address{launch.store_host, launch.store_ports};
  if (const auto store = connect_within(address, address.ports.front(), options.agent_answer))
    return *store;
  const std::string agent = launch.torch_version_hint.empty()
                                ? "of unknown version"
                                : "of torch " + launch.torch_version_hint;
  throw Error(
      ErrorKind::config, "comm",
      fmt::format("torchrun's agent ({}) at {}:{} did not answer within {:.0f} s; wmtp speaks the "
                  "store protocol of torch 2.11",
                  agent, address.host, address.ports.front(),
                  std::chrono::duration<double>(options.agent_answer).count()),
      "use torchrun of torch 2.11, or set WMTP_RENDEZVOUS=tcp://HOST:PORT (rank 0 serves there) or "
      "file://DIR (a shared folder), or TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 for the agent");
}

// Where rank 0 binds; "" = all interfaces, where nothing narrower is sure to be reached by the
// peers.
std::string bind_address(const LaunchEnv& launch, const RendezvousOptions& options,
                         const std::string& host) {
  if (!options.interface.empty()) return interface_address(options.interface);
  const std::optional<std::string> own = own_address(host);
  const bool literal =
      host == own;  // a loopback address written out is meant, a name may be an alias
  if (own && (!is_loopback(*own) || launch.nodes == 1 || (literal && !launch.kubernetes_job)))
    return *own;
  log::warn("comm",
            "{} is no address of this machine: the store listens on all interfaces; "
            "set distributed.interface",
            host);
  return "";
}

Rendezvous serve(const LaunchEnv& launch, const RendezvousOptions& options,
                 const Address& address) {
  std::string bound;
  std::optional<Error> problem;
  try {
    bound = bind_address(launch, options, address.host);
  } catch (const Error& error) {  // the others look for us at that address: there they learn it
    const std::optional<std::string> own = own_address(address.host);
    if (!own) throw;
    bound = *own;
    problem = error;
  }
  for (const int port : address.ports) {
    const std::optional<Listener> listener = listen_at(bound, port);
    if (!listener) continue;
    const std::string self = bound.empty() ? "127.0.0.1" : bound;
    const Store store = Store::tcp_server(self, listener->port, listener->fd, options.timeout);
    store.prefixed(run_prefix(launch)).set("server", server_proof(launch));
    if (problem)
      refuse_to_meet(store.prefixed(run_prefix(launch)), launch, options.timeout, *problem);
    return {store, "",
            fmt::format("tcp store {}:{} (served here)", bound.empty() ? "*" : bound, port)};
  }
  throw Error(
      ErrorKind::config, "comm",
      fmt::format("cannot serve the store: port {}{} of {} is occupied", address.ports.front(),
                  address.ports.size() > 1 ? fmt::format(" to {}", address.ports.back()) : "",
                  bound.empty() ? "this machine" : bound),
      "another job or an earlier run holds it; choose another MASTER_PORT or distributed.port");
}

Rendezvous join(const LaunchEnv& launch, const RendezvousOptions& options, const Address& address) {
  const auto deadline = Clock::now() + options.timeout;
  // Where others hold every port, rank 0 cannot serve either: it ends with the same code.
  std::size_t num_others = 0;
  while (Clock::now() < deadline) {
    num_others = 0;
    for (const int port : address.ports) {
      if (!answers(address.host, port, 1'000)) continue;
      const std::optional<Store> store = connect_within(address, port, kConnectPatience);
      const std::optional<std::string> proof =
          store ? store->prefixed(run_prefix(launch)).try_get("server", 4096) : std::nullopt;
      if (proof == server_proof(launch))
        return {*store, "", fmt::format("tcp store {}:{}", address.host, port)};
      ++num_others;
      if (store && address.ports.size() == 1) note_turned_away(*store, launch.rank);
    }
    std::this_thread::sleep_for(kRetryPause);
  }
  throw Error(
      num_others == address.ports.size() ? ErrorKind::config : ErrorKind::comm, "comm",
      fmt::format(
          "rank 0's store at {}:{} did not answer within {:.0f} s{}", address.host,
          address.ports.front(), std::chrono::duration<double>(options.timeout).count(),
          num_others > 0 ? " (something else, or a run with another token, answers there)" : ""),
      "missing: rank 0; is MASTER_ADDR its host, and WMTP_RUN_TOKEN the same everywhere?");
}

Address parse_tcp(const std::string& url) {
  std::string rest = url.substr(std::string_view("tcp://").size());
  const std::size_t colon = rest.rfind(':');
  int port = 0;
  const std::string digits = colon == std::string::npos ? "" : rest.substr(colon + 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  std::string host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (digits.empty() || parsed.ptr != digits.data() + digits.size() || port < 1 || port > 65'535 ||
      host.empty())
    throw Error(ErrorKind::config, "comm",
                fmt::format("WMTP_RENDEZVOUS={} is not tcp://HOST:PORT", url));
  return {host, {port}};
}

Rendezvous meet_in(const std::filesystem::path& folder) {
  if (!folder.is_absolute())
    throw Error(ErrorKind::config, "comm",
                fmt::format("WMTP_RENDEZVOUS=file://{} is not an absolute path", folder.string()));
  make_private_folder(folder);
  return {Store::file(folder), "", fmt::format("file store {}", folder.string())};
}

Rendezvous meet_at(const LaunchEnv& launch, const RendezvousOptions& options, Address address) {
  if (options.port > 0) address.ports = {options.port};
  return launch.rank == 0 ? serve(launch, options, address) : join(launch, options, address);
}

Rendezvous find_store(const LaunchEnv& launch, const RendezvousOptions& options) {
  if (launch.rendezvous.starts_with("file://")) return meet_in(launch.rendezvous.substr(7));
  if (launch.rendezvous.starts_with("tcp://"))
    return meet_at(launch, options, parse_tcp(launch.rendezvous));
  if (!launch.rendezvous.empty())
    throw Error(ErrorKind::config, "comm",
                fmt::format("WMTP_RENDEZVOUS={} is neither tcp://HOST:PORT nor file://DIR",
                            launch.rendezvous));
  if (launch.agent_store)
    return {join_agent(launch, options), "",
            fmt::format("torchrun's store {}:{}", launch.store_host, launch.store_ports.front())};
  if (!launch.store_host.empty() && !launch.store_ports.empty())
    return meet_at(launch, options, {launch.store_host, launch.store_ports});
  Rendezvous meeting = meet_in(folder_of_parent());
  meeting.own_folder = folder_of_parent();
  return meeting;
}

std::string gloo_address(const LaunchEnv& launch, const RendezvousOptions& options) {
  if (!options.interface.empty()) return interface_address(options.interface);
  if (launch.nodes == 1) return "127.0.0.1";
  std::string host = launch.store_host;
  if (launch.rendezvous.starts_with("tcp://")) host = parse_tcp(launch.rendezvous).host;
  const auto routed = host.empty() ? std::nullopt : address_towards(host);
  if (routed && (!is_loopback(*routed) || routed == host)) return *routed;
  return any_outside_address().value_or("127.0.0.1");
}

}  // namespace

Rendezvous rendezvous(const LaunchEnv& launch, const RendezvousOptions& options) {
  if (launch.world == 1) return {Store::in_process(), "127.0.0.1", "one process"};
  if (!launch.keep_torch_log) silence_c10d_log();
  Rendezvous meeting = find_store(launch, options);
  meeting.store = meeting.store.prefixed(run_prefix(launch));
  try {
    meeting.local_address = gloo_address(launch, options);
  } catch (const Error& error) {
    refuse_to_meet(meeting.store, launch, options.timeout, error);
  }
  if (launch.rank == 0 && launch.nodes > 1 && launch.token.empty())
    log::warn("comm", "no WMTP_RUN_TOKEN: anybody who reaches {} can join this run", meeting.where);
  authenticate(meeting.store, launch, options.timeout);
  return meeting;
}

}  // namespace wmtp::comm
