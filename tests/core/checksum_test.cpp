#include "wmtp/core/checksum.h"

#include <gtest/gtest.h>

namespace wmtp {
namespace {

TEST(Checksum, KnownDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Checksum, PiecesEqualWhole) {
  const std::string text = "a somewhat longer text, odd in length and cut anywhere";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(
        crc32c(std::string_view(text).substr(cut), crc32c(std::string_view(text).substr(0, cut))),
        crc32c(text));
}

}  // namespace
}  // namespace wmtp
