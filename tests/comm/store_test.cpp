#include "wmtp/comm/store.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace wmtp::comm
