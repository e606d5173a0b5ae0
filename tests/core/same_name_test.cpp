#include "wmtp/core/same_name.h"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

enum class Shape { round, square, oval };
enum class Outline { round, square, oval };
enum class Reordered { square, round, oval };
enum class Shorter { round, square };
enum class Longer { round, square, oval, flat };

static_assert(enumerator_name<Shape::square>() == "square");
static_assert(enumerator_name<static_cast<Shape>(3)>().empty());
static_assert(num_enumerators<Shape>() == 3);
static_assert(SameEnumerators<Shape, Outline>);
static_assert(!SameEnumerators<Shape, Reordered>);
static_assert(!SameEnumerators<Shape, Shorter> && !SameEnumerators<Shape, Longer>);

TEST(SameName, KeepsTheEnumerator) {
  EXPECT_EQ(same_name<Outline>(Shape::square), Outline::square);
  EXPECT_EQ(same_name<Shape>(Outline::oval), Shape::oval);
}

}  // namespace
}  // namespace wmtp
