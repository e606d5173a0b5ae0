// Errors held to bounds. With WMTP_TOLERANCE_LOG=FILE, a program appends one line for each place
// when it ends: "<file>:<line> <error> <bound>", those of the largest error / bound.
// tools/isa_matrix makes a table of them.
#pragma once
#include <gtest/gtest.h>

namespace wmtp::test {

// error <= bound; NaN is not. THREADS: any.
::testing::AssertionResult within(double error, double bound, const char* file, int line);

}  // namespace wmtp::test

#define EXPECT_WITHIN(error, bound) \
  EXPECT_TRUE(::wmtp::test::within((error), (bound), __FILE__, __LINE__))
