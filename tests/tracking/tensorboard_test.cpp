#include "wmtp/tracking/tensorboard_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::tracking {
namespace {

using test::slurp;
using test::TempDir;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return out;
}

// What TensorBoard 2.21 itself makes of the same two events (tests/golden/tensorboard_events.py).
TEST(Tensorboard, WritesWhatTensorboardWrites) {
  TempDir folder;
  TensorboardSink sink(folder / "tb", 1763200000.5);
  sink.point({300, 1763200001.25, {{"train/loss", 1.5}, {"a", -2}}});
  EXPECT_EQ(hex(slurp(sink.path())),
            "1800000000000000a37f4b2209000020001346da411a0d627261696e2e4576656e743a32292a8755"
            "2b00000000000000861bc34b09000050001346da4110ac022a1d0a110a0a747261696e2f6c6f7373"
            "150000c03f0a080a016115000000c0f0a981d1");
}

TEST(Tensorboard, EachProcessHasAFileOfItsOwn) {
  TempDir folder;
  TensorboardSink first(folder.path(), 1763200000), second(folder.path(), 1763200000);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(first.path().filename().string(),
              ::testing::StartsWith("events.out.tfevents.1763200000."));
}

TEST(Tensorboard, AFolderThatCannotBeMadeIsAnError) {
  TempDir folder;
  test::write_file(folder / "file", "");
  EXPECT_WMTP_ERROR(TensorboardSink(folder / "file" / "tb", 0), ErrorKind::io, "tfevents");
}

}  // namespace
}  // namespace wmtp::tracking
