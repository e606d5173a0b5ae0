// The second half of a rendezvous: are these the W ranks of this run?
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "wmtp/comm/rendezvous.h"
#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;
constexpr std::size_t kMaxHelloBytes = 4096;

std::string random_nonce() {
  std::array<std::uint8_t, 16> bytes{};
  WMTP_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random numbers");
  return to_hex(bytes);
}

std::string proof(const LaunchEnv& launch, int rank, const std::string& nonce) {
  return hmac_sha256_hex(launch.token, fmt::format("hello {} {}", rank, nonce));
}

milliseconds left_until(Clock::time_point deadline) {
  return std::max(milliseconds(1),
                  std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

std::string missing_text(const Store& store, const LaunchEnv& launch, milliseconds timeout) {
  std::vector<int> missing;
  for (int r = 0; r < launch.world; ++r)
    if (!store.has(fmt::format("claim/{}", r))) missing.push_back(r);
  return fmt::format("{} of {} ranks came within {:.0f} s; missing: {} {}",
                     launch.world - static_cast<int>(missing.size()), launch.world,
                     std::chrono::duration<double>(timeout).count(),
                     missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "));
}

[[noreturn]] void throw_missing(const std::string& text) {
  throw Error(
      ErrorKind::comm, "comm", text,
      "look at the logs of the missing ranks; all need the same WMTP_RUN_TOKEN and restart count");
}

void claim_rank(const Store& store, const LaunchEnv& launch) {
  if (store.add(fmt::format("claim/{}", launch.rank), 1) > 1)
    throw Error(
        ErrorKind::config, "comm", fmt::format("two processes claim to be rank {}", launch.rank),
        "each process needs its own RANK, and each run its own meeting place and WMTP_RUN_TOKEN");
}

// REQUIRES rank 0. "ok", or what is wrong.
std::string judge(const Store& store, const LaunchEnv& launch, const std::string& nonce,
                  milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (int r = 0; r < launch.world; ++r) {
    std::string answer;
    try {
      answer = store.get(fmt::format("hello/{}", r), left_until(deadline), kMaxHelloBytes);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::comm) throw;
      return missing_text(store, launch, timeout);
    }
    const std::string expected = proof(launch, r, nonce);
    if (answer.size() != expected.size() ||
        CRYPTO_memcmp(answer.data(), expected.data(), answer.size()) != 0)
      return fmt::format("the process that claims to be rank {} does not know the run token", r);
  }
  return "ok";
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

void say_hello(const Store& run_store, const LaunchEnv& launch, milliseconds timeout) {
  if (failpoint::pass("comm.hello") == failpoint::Action::skip) return;
  const Store store = run_store.prefixed("hello");
  claim_rank(store, launch);
  if (launch.rank == 0) {
    const std::string nonce = random_nonce();
    store.set("nonce", nonce);
    store.set("hello/0", proof(launch, 0, nonce));
    const std::string verdict = judge(store, launch, nonce, timeout);
    store.set("verdict", verdict);
    if (verdict != "ok") throw_missing(verdict);
    return;
  }
  std::string nonce;
  try {
    nonce = store.get("nonce", timeout, kMaxHelloBytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::comm) throw;
    throw_missing(missing_text(store, launch, timeout));
  }
  store.set(fmt::format("hello/{}", launch.rank), proof(launch, launch.rank, nonce));
  const std::string verdict =
      store.get("verdict", timeout + std::chrono::seconds(5), kMaxHelloBytes);
  if (verdict != "ok") throw_missing(verdict);
}

}  // namespace wmtp::comm
