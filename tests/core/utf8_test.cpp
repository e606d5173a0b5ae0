#include "wmtp/core/utf8.h"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(FirstCodePoints, NeverCutACharacter) {
  EXPECT_EQ(first_code_points("a█é🙂z", 0), "");
  EXPECT_EQ(first_code_points("a█é🙂z", 2), "a█");
  EXPECT_EQ(first_code_points("a█é🙂z", 4), "a█é🙂");
  EXPECT_EQ(first_code_points("a█é🙂z", 9), "a█é🙂z");
}

}  // namespace
}  // namespace wmtp
