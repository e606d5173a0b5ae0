#include "wmtp/s3/secret.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <sstream>
#include <type_traits>

#include "support/sanitized.h"

namespace wmtp::s3 {
namespace {

static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_convertible_v<std::string, Secret>);

TEST(Secret, PrintsAsStars) {
  const Secret secret("canary");
  std::ostringstream out;
  out << secret << Secret();
  EXPECT_EQ(out.str(), "***");
  EXPECT_EQ(fmt::format("{}|{}", secret, Secret()), "***|");
  EXPECT_EQ(secret.reveal(), "canary");
}

TEST(Secret, CopiesAndMovesKeepTheText) {
  Secret first("canary"), second(first), third(std::move(first));
  EXPECT_TRUE(second == third);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move)
  first = second;
  EXPECT_EQ(first.reveal(), "canary");
  first = Secret();
  EXPECT_TRUE(first.empty());
}

TEST(Secret, IsOverwrittenWhenItGoes) {
  alignas(Secret) std::byte place[sizeof(Secret)];
  auto* secret = new (place) Secret(std::string(64, 'q'));
  const char* text = secret->reveal().data();
  secret->~Secret();
  // The allocator has put words of its own at the front of what was freed.
#if !defined(WMTP_SANITIZED)
  EXPECT_NE(text[40], 'q');
  EXPECT_NE(text[63], 'q');
#else
  (void)text;
#endif
  std::string word(64, 'q');
  const char* bytes = word.data();
  wipe(word);
  EXPECT_EQ(bytes[40], '\0');
}

rlim_t core_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  return limit.rlim_cur;
}

TEST(Secret, NoCoreFilesWhileOneIsHeld) {
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  if (limit.rlim_max == 0) GTEST_SKIP() << "core files are off on this machine";
  limit.rlim_cur = 1;
  ASSERT_EQ(::setrlimit(RLIMIT_CORE, &limit), 0);
  {
    const Secret nothing;
    EXPECT_EQ(core_limit(), 1u);
    Secret one("a");
    const Secret two(one);
    EXPECT_EQ(core_limit(), 0u);
    const Secret three(std::move(one));
    EXPECT_EQ(core_limit(), 0u);
  }
  EXPECT_EQ(core_limit(), 1u);
}

}  // namespace
}  // namespace wmtp::s3
