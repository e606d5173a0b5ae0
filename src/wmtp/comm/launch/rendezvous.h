// From a LaunchEnv to a store that all W ranks share, and the proof that they are the right W.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/comm/store.h"

namespace wmtp::comm {

struct RendezvousOptions {
  std::chrono::milliseconds timeout =
      std::chrono::seconds(600);  // distributed.rendezvous_timeout_s
  std::chrono::milliseconds agent_answer =
      std::chrono::seconds(10);  // an agent's store must answer in
  std::string interface = {};    // distributed.interface, or empty
  int port = 0;                  // distributed.port, 0 = from env
};

struct Rendezvous {
  Store store = {};  // below wmtp/<token>/<restart>/; the server lives in it where we serve
  std::string local_address = {};  // for Gloo: on the route to the peers; 127.0.0.1 on one node
  std::string where = {};          // "file store /tmp/x", "tcp store 10.0.0.1:29500 (served here)"
  std::optional<std::filesystem::path> own_folder =
      std::nullopt;  // made for this run: rank 0 removes it at the end
};

// COLLECTIVE, BLOCKS. Finds or serves the store and says hello: every rank proves that it knows the
// run token. Errors: comm listing the ranks that did not come within `timeout`; config for an agent
// that does not answer, an occupied port, a wrong token, two processes of one rank. World 1: an
// in-process store, no port, no file.
Rendezvous rendezvous(const LaunchEnv& launch, const RendezvousOptions& options);

// The second half, over any store. Exposed for tests.
void authenticate(const Store& store, const LaunchEnv& launch, std::chrono::milliseconds timeout);

// HMAC-SHA256 in lower-case hex.
std::string hmac_sha256_hex(std::string_view key, std::string_view text);

}  // namespace wmtp::comm
