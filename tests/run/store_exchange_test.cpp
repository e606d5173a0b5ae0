#include "wmtp/run/checkpoints/store_exchange.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "wmtp/comm/launch/network.h"

namespace wmtp::test {
namespace {

using std::chrono::milliseconds;

void expect_votes_travel(const comm::Store& store, const comm::Store& other) {
  run::StoreExchange mine(store, "save"), theirs(other, "save"), choice(other, "choose");
  const std::string longest(checkpoint::kMaxVoteBytes, 'x');
  EXPECT_FALSE(theirs.wait("part/0", milliseconds(5)));
  mine.post("part/0", longest);
  EXPECT_TRUE(theirs.wait("part/0", milliseconds(20'000)) == longest);
  EXPECT_FALSE(choice.wait("part/0", milliseconds(0)));
  mine.forget("part/0");
  EXPECT_FALSE(theirs.wait("part/0", milliseconds(0)));
}

TEST(StoreExchange, TheLongestTravelsAndIsForgottenOverFiles) {
  const TempDir folder;
  expect_votes_travel(comm::Store::file(folder.path()), comm::Store::file(folder.path()));
}

TEST(StoreExchange, TheLongestTravelsAndIsForgottenOverTcp) {
  const milliseconds patience(20'000);
  const comm::Listener listener = *comm::listen_at("127.0.0.1", 0);
  const auto server = comm::Store::tcp_server("127.0.0.1", listener.port, listener.fd, patience);
  expect_votes_travel(server, comm::Store::tcp_client("127.0.0.1", listener.port, patience));
}

}  // namespace
}  // namespace wmtp::test
