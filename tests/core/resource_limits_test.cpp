#include "wmtp/core/resource_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>

#include "support/expect_error.h"
#include "support/sanitized.h"

namespace wmtp {
namespace {

void set_soft(__rlimit_resource_t resource, rlim_t value) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  limit.rlim_cur = value;
  ::setrlimit(resource, &limit);
}

TEST(ResourceLimits, NamesThoseThatAreSet) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  set_soft(RLIMIT_NOFILE, 123);
  EXPECT_EQ(limits_on(Resource::descriptors), "RLIMIT_NOFILE = 123");
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ResourceLimits, KnowsWhatMeansALimit) {
  EXPECT_EQ(as_limit_error(std::bad_alloc())->kind(), ErrorKind::config);
  EXPECT_TRUE(as_limit_error(Error(ErrorKind::io, "x", "cannot open y: Too many open files")));
  EXPECT_TRUE(as_limit_error(std::runtime_error("mmap: Cannot allocate memory")));
  EXPECT_TRUE(as_limit_error(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))));
  EXPECT_FALSE(as_limit_error(std::runtime_error("Resource temporarily unavailable")));
  EXPECT_FALSE(as_limit_error(Error(ErrorKind::io, "x", "cannot open y: Permission denied")));
}

#ifndef WMTP_SANITIZED
// In a process of its own: a limit on the address space cannot be taken back for sure.
TEST(ResourceLimits, ThreadsThatCannotBeStartedAreRefused) {
  EXPECT_EXIT(
      {
        require_threads(4);
        set_soft(RLIMIT_AS, 0);  // what is mapped stays; no stack can be added
        try {
          require_threads(64);
        } catch (const Error& error) {
          ::_exit(std::string(error.what()).find("RLIMIT_AS = 0 MiB") == std::string::npos ? 1
                                                                                           : 78);
        }
        ::_exit(0);
      },
      ::testing::ExitedWithCode(78), "");
}
#endif

}  // namespace
}  // namespace wmtp
