#include "wmtp/comm/launch/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/comm/launch/network.h"
#include "wmtp/comm/launch/private_folder.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;

int free_port() {
  const Listener listener = *listen_at("127.0.0.1", 0);
  ::close(listener.fd);
  return listener.port;
}

LaunchEnv rank_of(int rank, int world, const std::string& rendezvous) {
  LaunchEnv launch;
  launch.source = LaunchSource::torchrun;
  launch.rank = launch.local_rank = rank;
  launch.world = launch.local_world = world;
  launch.rendezvous = rendezvous;
  launch.token = "0123456789abcdef0123456789abcdef";
  return launch;
}

RendezvousOptions within(int ms) {
  return {.timeout = milliseconds(ms), .agent_answer = milliseconds(ms)};
}

// "" where it went well, else exit code and text.
std::string meet_with(const LaunchEnv& launch, const RendezvousOptions& options) {
  try {
    rendezvous(launch, options);
    return "";
  } catch (const Error& error) {
    return fmt::format("{} {}", static_cast<int>(exit_code(error.kind())), error.what());
  }
}

// All ranks meet in threads of this process; the error texts, "" where it went well.
std::vector<std::string> meet_all(const std::vector<LaunchEnv>& ranks,
                                  const RendezvousOptions& options) {
  std::vector<std::future<std::string>> running;
  std::vector<Rendezvous> meetings(ranks.size());  // kept: rank 0's holds the server
  for (std::size_t i = 0; i < ranks.size(); ++i)
    running.push_back(std::async(std::launch::async, [&, i]() -> std::string {
      try {
        meetings[i] = rendezvous(ranks[i], options);
        meetings[i].store.set(fmt::format("test/{}", i), "here");
        for (std::size_t r = 0; r < ranks.size(); ++r)
          meetings[i].store.get(fmt::format("test/{}", r), milliseconds(5000));
        return "";
      } catch (const Error& error) {
        return fmt::format("{} {}", static_cast<int>(exit_code(error.kind())), error.what());
      }
    }));
  std::vector<std::string> texts;
  for (auto& rank : running) texts.push_back(rank.get());
  return texts;
}

TEST(Rendezvous, OneProcessNeedsNothing) {
  const Rendezvous meeting = rendezvous(LaunchEnv{}, {});
  meeting.store.set("key", "value");
  EXPECT_EQ(meeting.store.get("key", milliseconds(10)), "value");
  EXPECT_EQ(meeting.where, "one process");
}

TEST(Rendezvous, ByFile) {
  const test::TempDir dir;
  const std::string url = "file://" + (dir / "meet").string();
  EXPECT_EQ(meet_all({rank_of(0, 3, url), rank_of(1, 3, url), rank_of(2, 3, url)}, within(20'000)),
            std::vector<std::string>(3));
  struct stat found {};
  ASSERT_EQ(::stat((dir / "meet").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST(Rendezvous, ByTcpOnLoopbackOnly) {
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  EXPECT_EQ(meet_all({rank_of(0, 2, url), rank_of(1, 2, url)}, within(20'000)),
            std::vector<std::string>(2));
  const auto outside = any_outside_address();
  if (!outside) GTEST_SKIP() << "this machine has only loopback";
  const int port = free_port();
  auto server = std::async(std::launch::async, [&] {
    return rendezvous(rank_of(0, 2, fmt::format("tcp://127.0.0.1:{}", port)), within(1500)).where;
  });
  while (!answers("127.0.0.1", port, 100)) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(answers(*outside, port, 300));
  EXPECT_THROW(server.get(), Error);
}

TEST(Rendezvous, MissingRanksAreListed) {
  const test::TempDir dir;
  const std::string url = "file://" + (dir / "meet").string();
  const auto texts = meet_all({rank_of(0, 4, url), rank_of(2, 4, url)}, within(700));
  for (const std::string& text : texts)
    EXPECT_THAT(text,
                testing::HasSubstr("75 [comm] 2 of 4 ranks came within 1 s; missing: ranks 1, 3"));
}

TEST(Rendezvous, MissingRankZero) {
  const test::TempDir dir;
  EXPECT_THAT(meet_all({rank_of(1, 2, "file://" + (dir / "meet").string())}, within(300))[0],
              testing::HasSubstr("missing: rank 0"));
  EXPECT_THAT(
      meet_all({rank_of(1, 2, fmt::format("tcp://127.0.0.1:{}", free_port()))}, within(300))[0],
      testing::AllOf(testing::StartsWith("75 "), testing::HasSubstr("missing: rank 0")));
}

TEST(Rendezvous, WrongTokenDoesNotJoinAndDoesNoHarm) {
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  std::vector<LaunchEnv> ranks{rank_of(0, 2, url), rank_of(1, 2, url), rank_of(1, 2, url)};
  ranks[2].token = "another token, another run";
  const auto texts = meet_all({ranks[0], ranks[1]}, within(20'000));
  EXPECT_EQ(texts, std::vector<std::string>(2));
  auto intruder =
      std::async(std::launch::async, [&] { return meet_all({ranks[2]}, within(1500))[0]; });
  EXPECT_THAT(intruder.get(), testing::StartsWith("75 "));
}

TEST(Rendezvous, WrongTokenBesideALiveRun) {
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  LaunchEnv intruder = rank_of(1, 2, url);
  intruder.token = "another token, another run";
  auto server = std::async(std::launch::async,
                           [&] { return rendezvous(rank_of(0, 2, url), within(20'000)); });
  auto refused =
      std::async(std::launch::async, [&] { return meet_all({intruder}, within(1500))[0]; });
  EXPECT_THAT(refused.get(), testing::HasSubstr("another token"));
  EXPECT_NO_THROW(rendezvous(rank_of(1, 2, url), within(20'000)));
  EXPECT_NO_THROW(server.get());
}

TEST(Rendezvous, ForgedHelloIsRefused) {
  const Store store = Store::in_process();
  const LaunchEnv launch = rank_of(0, 2, "");
  store.set("hello/hello/1", std::string(64, '0'));
  EXPECT_WMTP_ERROR(authenticate(store, launch, milliseconds(500)), ErrorKind::comm,
                    "the process that claims to be rank 1 does not know the run token");
}

// The control: with the hello left out, a forged one goes unseen.
TEST(Rendezvous, SkippedHelloSeesNothing) {
  failpoint::configure({.spec = "comm.hello=skip", .rank = 0, .log_path = {}});
  const Store store = Store::in_process();
  store.set("hello/hello/1", std::string(64, '0'));
  EXPECT_NO_THROW(authenticate(store, rank_of(0, 2, ""), milliseconds(500)));
  failpoint::configure({});
}

TEST(Rendezvous, TwoProcessesOfOneRank) {
  const Store store = Store::in_process();
  store.add("hello/claim/1", 1);
  EXPECT_WMTP_ERROR(authenticate(store, rank_of(1, 2, ""), milliseconds(500)), ErrorKind::config,
                    "two processes claim to be rank 1");
}

TEST(Rendezvous, OccupiedPortIsNamed) {
  const Listener other = *listen_at("127.0.0.1", 0);
  EXPECT_WMTP_ERROR(
      rendezvous(rank_of(0, 2, fmt::format("tcp://127.0.0.1:{}", other.port)), within(500)),
      ErrorKind::config, fmt::format("port {} of 127.0.0.1 is occupied", other.port));
  ::close(other.fd);
}

// Rank 0 cannot serve, the others find a stranger: one code.
TEST(Rendezvous, OccupiedPortIsOneCodeForAll) {
  const Listener other = *listen_at("127.0.0.1", 0);
  const std::string url = fmt::format("tcp://127.0.0.1:{}", other.port);
  const auto texts =
      meet_all({rank_of(0, 3, url), rank_of(1, 3, url), rank_of(2, 3, url)}, within(700));
  for (const std::string& text : texts) EXPECT_THAT(text, testing::StartsWith("78 "));
  ::close(other.fd);
}

// Files and sockets: the one that serves the store must not take it away before the others know.
TEST(Rendezvous, AFailedMeetingIsOneErrorForAll) {
  const test::TempDir dir;
  for (const std::string& url :
       {"file://" + (dir / "meet").string(), fmt::format("tcp://127.0.0.1:{}", free_port())}) {
    std::vector<std::future<std::string>> texts;
    const auto come = [&](int rank) {
      texts.push_back(std::async(std::launch::async, [rank, url] {
        return meet_with(rank_of(rank, 4, url), within(60'000));
      }));
    };
    for (const int rank : {0, 1, 1, 2}) come(rank);
    const auto ready = [](const auto& text) {
      return text.wait_for(milliseconds(5)) == std::future_status::ready;
    };
    while (!ready(texts[1]) && !ready(texts[2])) {
    }
    come(3);  // late, and told all the same
    for (auto& text : texts)
      EXPECT_THAT(text.get(), testing::StartsWith("78 [comm] two processes claim to be rank 1"))
          << url;
  }
}

TEST(Rendezvous, ARankWithoutItsInterfaceTellsTheOthers) {
  for (const std::size_t odd : {std::size_t{0}, std::size_t{1}}) {
    const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
    std::vector<std::future<std::string>> texts;
    for (int rank = 0; rank < 2; ++rank)
      texts.push_back(std::async(std::launch::async, [&, rank] {
        RendezvousOptions options = within(60'000);
        if (static_cast<std::size_t>(rank) == odd) options.interface = "nosuch0";
        return meet_with(rank_of(rank, 2, url), options);
      }));
    for (auto& text : texts)
      EXPECT_THAT(text.get(), testing::StartsWith("78 [comm] no network interface 'nosuch0'"));
  }
}

TEST(Rendezvous, AnotherTokenIsOneCodeForAll) {
  const std::string url = fmt::format("tcp://127.0.0.1:{}", free_port());
  std::vector<LaunchEnv> ranks{rank_of(0, 2, url), rank_of(1, 2, url)};
  ranks[1].token = "another token, another run";
  const auto texts = meet_all(ranks, within(2500));
  for (const std::string& text : texts) EXPECT_THAT(text, testing::StartsWith("78 "));
  EXPECT_THAT(texts[0], testing::HasSubstr("another run token or restart count: 1"));
}

// A rank that comes twice after all have met harms nobody but itself.
TEST(Rendezvous, ALateDoubleLeavesAlone) {
  const Store store = Store::in_process();
  store.set("hello/verdict", "ok");
  store.add("hello/claim/1", 1);
  EXPECT_WMTP_ERROR(authenticate(store, rank_of(1, 2, ""), milliseconds(500)), ErrorKind::config,
                    "two processes claim to be rank 1");
  EXPECT_EQ(store.get("hello/verdict", milliseconds(10)), "ok");
}

// The first port of the sequence belongs to somebody else who never answers: both sides walk on.
TEST(Rendezvous, WalksThePortsOfTheSequence) {
  const Listener other = *listen_at("127.0.0.1", 0);
  std::vector<LaunchEnv> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.push_back(rank_of(r, 2, ""));
    ranks.back().store_host = "127.0.0.1";
    ranks.back().store_ports = {other.port, free_port()};
  }
  ranks[1].store_ports = ranks[0].store_ports;
  EXPECT_EQ(meet_all(ranks, within(20'000)), std::vector<std::string>(2));
  ::close(other.fd);
}

TEST(Rendezvous, AgentThatDoesNotAnswer) {
  const Listener mute = *listen_at("127.0.0.1", 0);
  LaunchEnv launch = rank_of(0, 2, "");
  launch.agent_store = true;
  launch.store_host = "127.0.0.1";
  launch.store_ports = {mute.port};
  launch.torch_version_hint = "2.4.1";
  const auto start = Clock::now();
  EXPECT_WMTP_ERROR(rendezvous(launch, within(800)), ErrorKind::config,
                    "torchrun's agent (of torch 2.4.1) at 127.0.0.1");
  EXPECT_WMTP_ERROR(rendezvous(launch, within(100)), ErrorKind::config,
                    "WMTP_RENDEZVOUS=tcp://HOST:PORT");
  EXPECT_LT(seconds_since(start), 5);
  ::close(mute.fd);
}

TEST(Rendezvous, BadAddresses) {
  for (const char* url : {"tcp://host", "tcp://:1", "tcp://h:0", "tcp://h:70000", "tcp://h:1x",
                          "file://relative", "udp://x:1"})
    EXPECT_WMTP_ERROR(rendezvous(rank_of(0, 2, url), within(100)), ErrorKind::config,
                      "WMTP_RENDEZVOUS");
}

TEST(Rendezvous, SharedFoldersAreRefused) {
  const test::TempDir dir;
  ::chmod(dir.path().c_str(), 0777);
  EXPECT_WMTP_ERROR(rendezvous(rank_of(0, 2, "file://" + dir.path().string()), within(100)),
                    ErrorKind::config, "only you can write to");
  std::filesystem::create_symlink(dir.path(), dir / "link");
  EXPECT_WMTP_ERROR(make_private_folder(dir / "link"), ErrorKind::config, "only you can write to");
}

TEST(Rendezvous, UnknownInterface) {
  RendezvousOptions options = within(100);
  options.interface = "nosuch0";
  EXPECT_WMTP_ERROR(
      rendezvous(rank_of(0, 2, fmt::format("tcp://127.0.0.1:{}", free_port())), options),
      ErrorKind::config, "can be one of:");
  EXPECT_EQ(interface_address("lo"), "127.0.0.1");
}

// RFC 4231, test case 2.
TEST(Rendezvous, HmacSha256) {
  EXPECT_EQ(hmac_sha256_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace wmtp::comm
