// A stream beside the default one does what it is given as late as it may, and in its order.
#include <gtest/gtest.h>

#include <string>

#include "emulated_gpu/kernels/runtime/streams.h"

namespace wmtp::emulated::testing {
namespace {

TEST(EmulatedStreams, TheDefaultOneDoesAllAtOnce) {
  bool done = false;
  give(nullptr, [&] { done = true; });
  EXPECT_TRUE(done);
}

TEST(EmulatedStreams, OthersWaitUntilTheyAreWaitedFor) {
  const cudaStream_t first = stream_of(101), second = stream_of(102);
  std::string story;
  const auto tell = [&](char letter) { return [&story, letter] { story += letter; }; };
  give(first, tell('a'));
  const std::size_t point = num_given(first);
  give(first, tell('b'));
  give(second, tell('x'));
  EXPECT_EQ(story, "");
  do_until(first, point);
  EXPECT_EQ(story, "a");
  do_until(first, point);
  EXPECT_EQ(story, "a");
  do_all(second);
  EXPECT_EQ(story, "ax");
  do_all();
  EXPECT_EQ(story, "axb");
}

}  // namespace
}  // namespace wmtp::emulated::testing
