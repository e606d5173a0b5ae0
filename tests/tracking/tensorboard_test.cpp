#include "wmtp/tracking/tensorboard/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/tensorboard/event_proto.h"
#include "wmtp/tracking/tensorboard/markdown.h"

namespace wmtp::tracking {
namespace {

using test::slurp;
using test::TempDir;
using namespace tensorboard;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    out += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return out;
}

// What TensorBoard 2.21 itself makes of the same events (tests/golden/tensorboard_events.py).
TEST(Tensorboard, WritesWhatTensorboardWrites) {
  TempDir folder;
  TensorboardSink sink(folder / "tb", 1763200000.5);
  sink.point({300, 1763200001.25, {{"train/loss", 1.5}, {"a", -2}}});
  EXPECT_EQ(hex(slurp(sink.path())),
            "1800000000000000a37f4b2209000020001346da411a0d627261696e2e4576656e743a32292a8755"
            "2b00000000000000861bc34b09000050001346da4110ac022a1d0a110a0a747261696e2f6c6f7373"
            "150000c03f0a080a016115000000c0f0a981d1");
}

TEST(Tensorboard, HistogramsTextsAndRestartsAreWhatTensorboardWrites) {
  TempDir folder;
  EventFile file(folder.path(), 0);
  const Moment moment{1763200001.25, 300};
  file.write(summary_event(
      moment, histogram_value("histograms/weight", {300, "weight", {-1, 0.25, 1.5}, {2, 3}})));
  file.write(summary_event(moment, text_value("sample/1", "<pre>a</pre>")));
  file.write(restart_event({1763200001.25, 301}));
  EXPECT_EQ(hex(slurp(file.path())),
            "7500000000000000d7d9417809000050001346da4110ac022a670a650a11686973746f6772616d73"
            "2f776569676874423e0802120812020802120208032230000000000000f0bf000000000000d03f00"
            "00000000000040000000000000d03f000000000000f83f00000000000008404a100a0c0a0a686973"
            "746f6772616d732002d8fc9db4"
            "3a000000000000001295eae209000050001346da4110ac022a2c0a2a0a0873616d706c652f314212"
            "08071200420c3c7072653e613c2f7072653e4a0a0a060a04746578742002fd150897"
            "100000000000000095fbfe1809000050001346da4110ad023a020801826d432c");
}

TEST(Tensorboard, SamplesOfAStepHaveTagsOfTheirOwn) {
  TempDir folder;
  TensorboardSink sink(folder.path(), 0);
  for (const std::int64_t step : {1, 1, 2}) sink.sample({step, "baseline", {{"a"}}});
  const std::string bytes = slurp(sink.path());
  const std::size_t first = bytes.find("sample/1"), second = bytes.find("sample/2");
  ASSERT_LT(first, second);
  ASSERT_NE(second, bytes.npos);
  EXPECT_NE(bytes.find("sample/1", second), bytes.npos);
  EXPECT_EQ(bytes.find("sample/3"), bytes.npos);
}

TEST(Tensorboard, AnEventIsAText) {
  TempDir folder;
  TensorboardSink sink(folder.path(), 0);
  sink.event({.step = 7, .kind = "straggler", .text = "rank 1 on <b> is slow"});
  EXPECT_NE(slurp(sink.path()).find("event/straggler"), std::string::npos);
  EXPECT_NE(slurp(sink.path()).find("rank 1 on &lt;b&gt; is slow"), std::string::npos);
}

TEST(Tensorboard, AHistogramOfNothingIsLeftOut) {
  TempDir folder;
  TensorboardSink sink(folder.path(), 0);
  const std::string before = slurp(sink.path());
  sink.histogram(make_histogram("weight", 1, {}));
  EXPECT_EQ(slurp(sink.path()), before);
}

TEST(Tensorboard, ASampleShowsTargetsWeightsAndValues) {
  const DecodedSample sample{
      3, "rho1", {{"Q:\n"}, {"a", true, 0.5, 0.25, {1}}, {"b", true, 1, {}, {0}}}};
  EXPECT_THAT(
      sample_markdown(sample),
      ::testing::StartsWith("<pre>Q:\n<strong>a</strong>{0.50}[0.25]<em>b</em>{1.00}</pre>"));
  const DecodedSample even{3, "baseline", {{"a", true, 1}}};
  EXPECT_THAT(sample_markdown(even), ::testing::StartsWith("<pre><strong>a</strong></pre>"));
}

TEST(Tensorboard, ForeignTextIsEscapedAndValid) {
  const DecodedSample sample{3, "baseline", {{"</pre><b>&"}, {"\xff\x02z\xe2\x82", true, 1}}};
  EXPECT_THAT(
      sample_markdown(sample),
      ::testing::StartsWith("<pre>&lt;/pre&gt;&lt;b&gt;&amp;<strong>\xEF\xBF\xBD\xEF\xBF\xBDz"
                            "\xEF\xBF\xBD\xEF\xBF\xBD</strong></pre>"));
  EXPECT_THAT(table_markdown({{"a<", "|b\xff"}}),
              ::testing::HasSubstr("<td>a&lt;</td><td>|b\xEF\xBF\xBD</td>"));
}

TEST(Tensorboard, LongSamplesAreCut) {
  DecodedSample sample{3, "baseline", {}};
  sample.tokens.assign(1200, {"x"});
  EXPECT_THAT(sample_markdown(sample), ::testing::HasSubstr("200 more tokens are not shown"));
}

TEST(Tensorboard, FilesAreForTheirOwnerAlone) {
  TempDir folder;
  const mode_t before = ::umask(0);
  const TensorboardSink sink(folder.path(), 0);
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(sink.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

// A limit on the size of files stands for a full disk: part of a record is taken, then none.
TEST(Tensorboard, AFullDiskLosesWholeRecordsOnly) {
  TempDir folder;
  TensorboardSink sink(folder.path(), 0);
  sink.point({1, 1, {{"kept", 1}}});
  const std::string before = slurp(sink.path());
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{}, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = {before.size() + 10, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_NO_THROW(sink.point({2, 2, {{"lost", 1}}}));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(slurp(sink.path()), before);
  sink.point({3, 3, {{"later", 1}}});
  const std::string after = slurp(sink.path());
  EXPECT_EQ(after.find("lost"), after.npos);
  EXPECT_NE(after.find("later"), after.npos);
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
