#include "wmtp/comm/store.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/temp_dir.h"
#include "wmtp/comm/launch/network.h"

namespace wmtp::comm {
namespace {

constexpr std::chrono::milliseconds kPatience{20'000};

// As another process sees it: through a connection of its own.
void expect_removed(const Store& store, const Store& other) {
  const Store mine = store.prefixed("run"), theirs = other.prefixed("run");
  mine.set("part", "text");
  EXPECT_EQ(theirs.get("part", kPatience), "text");
  mine.remove("part");
  EXPECT_FALSE(theirs.has("part"));
  EXPECT_FALSE(mine.try_get("part"));
  mine.remove("part");  // it is gone already
  mine.set("part", "again");
  EXPECT_EQ(theirs.get("part", kPatience), "again");
}

TEST(StoreRemoval, InOneProcess) {
  const Store store = Store::in_process();
  expect_removed(store, store);
}

TEST(StoreRemoval, OfAFile) {
  const test::TempDir folder;
  expect_removed(Store::file(folder.path()), Store::file(folder.path()));
}

TEST(StoreRemoval, OverTcp) {
  const Listener listener = *listen_at("127.0.0.1", 0);
  const Store server = Store::tcp_server("127.0.0.1", listener.port, listener.fd, kPatience);
  expect_removed(server, Store::tcp_client("127.0.0.1", listener.port, kPatience));
}

// Rank 0 removes the folder of a run that mpirun started when all have said goodbye, and the others
// close their stores at the same time. The end of c10d's own file store waits five minutes where
// the folder goes between its look at the file and its opening: one of the first few rounds met it.
TEST(StoreFolder, ItsRemovalHoldsUpNobody) {
  for (int round = 0; round < 100; ++round) {
    auto folder = std::make_unique<test::TempDir>();
    auto closed = std::make_shared<std::promise<void>>();
    std::vector<Store> stores{Store::file(folder->path()).prefixed("run")};
    stores.front().set("part", "text");
    for (int i = 0; i < 8; ++i) stores.push_back(stores.front().clone());
    EXPECT_EQ(stores.back().get("part", kPatience), "text");
    std::thread([closed, stores = std::move(stores)]() mutable {
      stores.clear();
      closed->set_value();
    }).detach();
    folder.reset();
    ASSERT_EQ(closed->get_future().wait_for(kPatience), std::future_status::ready) << round;
  }
}

}  // namespace
}  // namespace wmtp::comm
