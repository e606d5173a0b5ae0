#include "wmtp/cli/last_words.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace wmtp::cli {
namespace {

template <class Exception>
void die_of(const Exception& error) {
  speak_before_terminate();
  std::thread([&error] { throw error; }).join();  // nobody catches it
}

TEST(LastWords, WantOfMemoryOrThreadsIsNamed) {
  EXPECT_EXIT(die_of(std::bad_alloc()), ::testing::ExitedWithCode(78), "no memory left");
  const auto error = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EXIT(die_of(std::system_error(error)), ::testing::ExitedWithCode(78),
              "cannot start another thread");
}

TEST(LastWords, AnythingElseIsACrashAsEver) {
  EXPECT_EXIT(die_of(std::logic_error("a bug")), ::testing::KilledBySignal(SIGABRT), "a bug");
}

TEST(LastWords, OnlyMainExits) {
  EXPECT_EXIT(
      {
        const OnlyMainExits rule;
        std::exit(1);
      },
      ::testing::ExitedWithCode(78), "a library has ended the program");
  EXPECT_EXIT(
      {
        { const OnlyMainExits rule; }
        std::exit(3);
      },
      ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace wmtp::cli
