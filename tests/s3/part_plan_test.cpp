#include "wmtp/s3/part_plan.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

TEST(PartPlan, PartsCoverTheFileAndStayBelowTenThousand) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, 5 * kMebibyte,
                                   5 * kMebibyte + 1, 45'001 * kMebibyte, kMostObjectBytes}) {
    const PartPlan plan = plan_parts(size, 5 * kMebibyte);
    EXPECT_GE(plan.part_bytes, 5 * kMebibyte);
    EXPECT_LE(plan.part_bytes, kMostPartBytes);
    EXPECT_LE(plan.num_parts(), 9000);
    std::uint64_t covered = 0;
    for (int number = 1; number <= plan.num_parts(); ++number) {
      EXPECT_EQ(plan.range_of(number).first, covered);
      covered += plan.range_of(number).length;
    }
    EXPECT_EQ(covered, size);
  }
  EXPECT_EQ(plan_parts(9000 * 16 * kMebibyte + 1, 16 * kMebibyte).part_bytes, 16 * kMebibyte + 1);
  EXPECT_WMTP_ERROR(plan_parts(kMostObjectBytes + 1, kMebibyte), ErrorKind::config,
                    "objects of S3 have at most");
}

TEST(PartPlan, EtagsOfPartsAndOfWholes) {
  const std::array<Md5Digest, 2> parts = {md5("a"), md5("b")};
  // echo -n a | md5sum; echo -n b | md5sum; their bytes together | md5sum
  EXPECT_EQ(composite_etag(parts), "96e024ba2074fe77e8e965ba43a704be-2");
  EXPECT_EQ(num_parts_of_etag("96e024ba2074fe77e8e965ba43a704be-2"), 2);
  for (const char* etag :
       {"96e024ba2074fe77e8e965ba43a704be", "96e024ba2074fe77e8e965ba43a704be-",
        "96e024ba2074fe77e8e965ba43a704be-0", "x-2", "96e024ba2074fe77e8e965ba43a704be-10001", ""})
    EXPECT_EQ(num_parts_of_etag(etag), std::nullopt) << etag;
  EXPECT_TRUE(is_md5_etag("96e024ba2074fe77e8e965ba43a704be"));
  EXPECT_FALSE(is_md5_etag("96e024ba2074fe77e8e965ba43a704bg"));
}

}  // namespace
}  // namespace wmtp::s3
