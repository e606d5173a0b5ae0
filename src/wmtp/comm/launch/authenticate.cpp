// The second half of a rendezvous: are these the W ranks of this run?
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <thread>

#include "wmtp/comm/launch/authenticate.h"
#include "wmtp/comm/launch/rendezvous.h"
#include "wmtp/comm/store_body.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/json.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kMaxHelloBytes = 4096;
constexpr std::size_t kMaxVerdictBytes = 64 << 10;
constexpr const char* kTurnedAway = "wmtp/turned-away/{}";
constexpr const char* kVerdict = "verdict";  // "ok", or the error of all
constexpr const char* kGood = "ok";
constexpr milliseconds kPoll{20};
constexpr milliseconds kReaderPatience{5'000};  // of the store's server, for those that came
constexpr milliseconds kComerPatience{20'000};  // the same where it did not wait for them before

std::string random_nonce() {
  std::array<std::uint8_t, 16> bytes{};
  WMTP_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random numbers");
  return to_hex(bytes);
}

std::string proof(const LaunchEnv& launch, int rank, const std::string& nonce) {
  return hmac_sha256_hex(launch.token, fmt::format("hello {} {}", rank, nonce));
}

Error missing_error(const Store& store, const LaunchEnv& launch, milliseconds timeout) {
  const Store root = root_of(store);
  std::vector<int> missing, turned_away;
  for (int r = 0; r < launch.world; ++r) {
    if (store.has(fmt::format("claim/{}", r))) continue;
    missing.push_back(r);
    if (root.has(fmt::format(kTurnedAway, r))) turned_away.push_back(r);
  }
  const std::string fact =
      fmt::format("{} of {} ranks came within {:.0f} s; missing: {} {}",
                  launch.world - static_cast<int>(missing.size()), launch.world,
                  std::chrono::duration<double>(timeout).count(),
                  missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "));
  if (missing.size() == turned_away.size() && !missing.empty())
    return {ErrorKind::config, "comm",
            fmt::format("{}; knocked with another run token or restart count: {}", fact,
                        fmt::join(turned_away, ", ")),
            "give all ranks of a run the same WMTP_RUN_TOKEN, each run its own port"};
  return {
      ErrorKind::comm, "comm", fact,
      "look at the logs of the missing ranks; all need the same WMTP_RUN_TOKEN and restart count"};
}

std::string encode_error(const Error& error) {
  return Json{{"kind", name_of(error.kind())},
              {"module", error.module()},
              {"fact", error.fact().substr(0, 8192)},
              {"hint", error.hint().substr(0, 8192)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error decode_error(const std::string& verdict) try {
  const Json json = parse_json(verdict, "the verdict on the meeting", {kMaxVerdictBytes, 4});
  const auto name = json.at("kind").get<std::string>();
  ErrorKind kind = ErrorKind::comm;
  for (const ErrorKind known :
       {ErrorKind::config, ErrorKind::data, ErrorKind::io, ErrorKind::device, ErrorKind::internal})
    if (name_of(known) == name) kind = known;
  return {kind, json.at("module").get<std::string>(), json.at("fact").get<std::string>(),
          json.at("hint").get<std::string>()};
} catch (const std::exception&) {
  return {ErrorKind::comm, "comm", "the verdict on the meeting cannot be read",
          "another program writes to this store"};
}

void claim_rank(const Store& store, const LaunchEnv& launch) {
  if (store.add(fmt::format("claim/{}", launch.rank), 1) > 1)
    throw Error(
        ErrorKind::config, "comm", fmt::format("two processes claim to be rank {}", launch.rank),
        "each process needs its own RANK, and each run its own meeting place and WMTP_RUN_TOKEN");
}

// BLOCKS until the key is there, or a verdict: then nothing. Throws who is missing at the deadline.
std::optional<std::string> wait_for(const Store& store, const std::string& key,
                                    const LaunchEnv& launch, milliseconds timeout,
                                    Clock::time_point deadline) {
  while (true) {
    if (auto value = store.try_get(key, kMaxHelloBytes)) return value;
    if (store.has(kVerdict)) return std::nullopt;
    if (Clock::now() >= deadline) throw missing_error(store, launch, timeout);
    std::this_thread::sleep_for(kPoll);
  }
}

// REQUIRES rank 0. The verdict that stands.
std::string receive_all(const Store& store, const LaunchEnv& launch, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const std::string nonce = random_nonce();
  store.set("nonce", nonce);
  store.set("hello/0", proof(launch, 0, nonce));
  for (int r = 0; r < launch.world; ++r) {
    const auto answer = wait_for(store, fmt::format("hello/{}", r), launch, timeout, deadline);
    if (!answer) break;  // somebody has spoken
    const std::string expected = proof(launch, r, nonce);
    if (answer->size() != expected.size() ||
        CRYPTO_memcmp(answer->data(), expected.data(), expected.size()) != 0)
      throw Error(
          ErrorKind::comm, "comm",
          fmt::format("the process that claims to be rank {} does not know the run token", r),
          "all ranks need the same WMTP_RUN_TOKEN");
  }
  return store.set_if_absent(kVerdict, kGood);
}

// REQUIRES another rank.
std::string introduce_myself(const Store& store, const LaunchEnv& launch, milliseconds timeout) {
  const auto nonce = wait_for(store, "nonce", launch, timeout, Clock::now() + timeout);
  if (nonce) store.set(fmt::format("hello/{}", launch.rank), proof(launch, launch.rank, *nonce));
  return store.get(kVerdict, timeout + std::chrono::seconds(5), kMaxVerdictBytes);
}

// The store goes with its server: it stays until those that came have read the verdict, and where
// there is still time to come, until all have come.
void wait_for_readers(const Store& store, const LaunchEnv& launch, Clock::time_point come_by) {
  const auto now = Clock::now();
  const bool time_to_come = now < come_by;
  const auto deadline =
      time_to_come ? std::min(come_by, now + kComerPatience) : now + kReaderPatience;
  while (Clock::now() < deadline) {
    std::int64_t num_came = 0;
    bool all_came = true;
    for (int r = 1; r < launch.world; ++r) {
      const std::int64_t claims = store.add(fmt::format("claim/{}", r), 0);
      num_came += claims;
      all_came = all_came && claims > 0;
    }
    if (store.add("read", 0) >= num_came && (all_came || !time_to_come)) return;
    std::this_thread::sleep_for(kPoll);
  }
}

// What a failed meeting ends with, on every rank.
[[noreturn]] void leave_meeting(const Store& store, const LaunchEnv& launch,
                                const std::string& verdict, Clock::time_point come_by) {
  try {
    if (serves(store))
      wait_for_readers(store, launch, come_by);
    else
      store.add("read", 1);
  } catch (const Error&) {  // the server is gone already
  }
  throw decode_error(verdict);
}

// The verdict that stands after this rank's word; "ok" where its error comes too late to count.
std::string post(const Store& store, const Error& error) {
  try {
    return store.set_if_absent(kVerdict, encode_error(error));
  } catch (const Error&) {  // nobody to tell
    throw error;
  }
}

}  // namespace

std::string hmac_sha256_hex(std::string_view key, std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  unsigned length = 0;
  WMTP_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                  reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
                  &length),
             "HMAC failed");
  return to_hex(digest);
}

void note_turned_away(const Store& foreign, int rank) {
  foreign.set(fmt::format(kTurnedAway, rank), "");
}

void refuse_to_meet(const Store& run_store, const LaunchEnv& launch, milliseconds timeout,
                    const Error& error) {
  const Store store = run_store.prefixed("hello");
  if (launch.rank != 0) store.add(fmt::format("claim/{}", launch.rank), 1);
  const std::string verdict = post(store, error);
  if (verdict == kGood) throw error;
  leave_meeting(store, launch, verdict, Clock::now() + timeout);
}

void authenticate(const Store& run_store, const LaunchEnv& launch, milliseconds timeout) {
  if (failpoint::pass("comm.hello") == failpoint::Action::skip) return;
  const Store store = run_store.prefixed("hello");
  const auto deadline = Clock::now() + timeout;
  std::string verdict;
  try {
    claim_rank(store, launch);
    verdict = launch.rank == 0 ? receive_all(store, launch, timeout)
                               : introduce_myself(store, launch, timeout);
    if (verdict == kGood) return;
  } catch (const Error& error) {
    verdict = post(store, error);
    if (verdict == kGood) throw;
  }
  leave_meeting(store, launch, verdict, deadline);
}

}  // namespace wmtp::comm
