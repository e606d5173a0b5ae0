// Signals on disk: what comes back, what a killed writer leaves, writers side by side.
#include "wmtp/data/plan/signal_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/core/checksum.h"
#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/loader.h"

namespace wmtp::data {
namespace {

namespace fs = std::filesystem;

const std::string kKey = sha256_hex("model and data");

std::vector<float> numbers(std::uint32_t count, float first) {
  std::vector<float> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(first + static_cast<float>(i) / 3);
  return out;
}

SignalRow row(std::uint64_t sample, std::uint32_t length, std::uint32_t part = 0) {
  return {sample, part, 0, length};
}

void keep(SignalCache& cache, const SignalRow& of, float first) {
  cache.append(of, numbers(of.length, first));
  cache.flush();
}

std::vector<fs::path> parts_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

// A batch of the documents given, end to end, with a filler behind them.
HostBatch batch_of(const std::vector<SignalRow>& rows) {
  std::size_t tokens = 2;
  for (const SignalRow& of : rows) tokens += of.length;
  HostBatch batch = make_host_batch({tokens, rows.size() + 1, 1}, heap_allocator());
  for (std::size_t d = 0; d < rows.size(); ++d) {
    batch.sample_id[d] = rows[d].sample_id;
    batch.sample_part[d] = rows[d].part;
    batch.doc_len[d] = static_cast<std::int32_t>(rows[d].length);
    batch.doc_start[d + 1] = batch.doc_start[d] + batch.doc_len[d];
  }
  batch.doc_len[rows.size()] = 2;
  batch.doc_flags[rows.size()] = kDocFiller;
  batch.doc_start[rows.size() + 1] = static_cast<std::int32_t>(tokens);
  return batch;
}

TEST(SignalCache, GivesBackTheBits) {
  const wmtp::test::TempDir dir;
  SignalCache writer(dir / "s", kKey);
  EXPECT_FALSE(fs::exists(dir / "s"));
  keep(writer, row(7, 5), 0.1F);
  keep(writer, row(1ULL << 40, 3, 2), -4);
  for (const SignalCache* cache : {&writer, new SignalCache(dir / "s", kKey)}) {
    EXPECT_EQ(cache->num_rows(), 2U);
    const auto found = cache->find(batch_of({row(1ULL << 40, 3, 2), row(7, 5)}));
    std::vector<float> expected = numbers(3, -4);
    for (const float value : numbers(5, 0.1F)) expected.push_back(value);
    expected.resize(10);  // the filler's
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(cache->find(batch_of({row(7, 5), row(8, 5)})).empty()) << "row 8 is missing";
    EXPECT_FALSE(cache->has(row(7, 5, 1)));
    if (cache != &writer) delete cache;
  }
}

TEST(SignalCache, AnotherLengthIsADataError) {
  const wmtp::test::TempDir dir;
  SignalCache cache(dir / "s", kKey);
  keep(cache, row(7, 5), 0);
  EXPECT_WMTP_ERROR(cache.has(row(7, 6)), ErrorKind::data, "5 numbers for part 0 of sample 7");
  EXPECT_WMTP_ERROR(cache.find(batch_of({row(7, 4)})), ErrorKind::data, "which has 4 tokens");
}

TEST(SignalCache, ForgetsATornRecord) {
  const wmtp::test::TempDir dir;
  {
    SignalCache cache(dir / "s", kKey);
    keep(cache, row(1, 5), 0);
    keep(cache, row(2, 5), 1);
  }
  const fs::path part = parts_in(dir / "s").at(0);
  const auto whole = fs::file_size(part);
  for (const auto cut : {1, 4, 5, 23, 39}) {
    fs::resize_file(part, whole - static_cast<std::uintmax_t>(cut));
    SignalCache cache(dir / "s", kKey);
    EXPECT_EQ(cache.num_rows(), 1U) << cut;
    EXPECT_TRUE(cache.has(row(1, 5)));
    fs::resize_file(part, whole);  // zeros at the end: damaged, not merely short
    EXPECT_EQ(SignalCache(dir / "s", kKey).num_rows(), 1U) << cut;
  }
  SignalCache again(dir / "s", kKey);
  keep(again, row(2, 5), 1);
  EXPECT_EQ(SignalCache(dir / "s", kKey).num_rows(), 2U) << "a part file of its own";
  EXPECT_EQ(parts_in(dir / "s").size(), 2U);
}

TEST(SignalCache, WritersSideBySide) {
  const wmtp::test::TempDir dir;
  SignalCache first(dir / "s", kKey), second(dir / "s", kKey);
  for (std::uint64_t i = 0; i < 50; ++i) {
    keep(first, row(i, 4), static_cast<float>(i));
    keep(second, row(i + 25, 4), static_cast<float>(i + 25));  // half of them by both
  }
  const SignalCache all(dir / "s", kKey);
  EXPECT_EQ(all.num_rows(), 75U);
  for (std::uint64_t i = 0; i < 75; ++i) {
    std::vector<float> expected = numbers(4, static_cast<float>(i));
    expected.resize(6);
    EXPECT_EQ(all.find(batch_of({row(i, 4)})), expected);
  }
}

TEST(SignalCache, LeavesOutWhatWasWrittenForAnotherKey) {
  const wmtp::test::TempDir dir;
  SignalCache cache(dir / "s", kKey);
  keep(cache, row(1, 5), 0);
  EXPECT_EQ(SignalCache(dir / "s", sha256_hex("another")).num_rows(), 0U);
}

TEST(SignalCache, AFullDiskCostsRowsNotTheRun) {
  const wmtp::test::TempDir dir;
  std::ofstream(dir / "file") << "in the way";
  SignalCache cache(dir / "file" / "s", kKey);
  keep(cache, row(1, 5), 0);
  keep(cache, row(1, 5), 0);
  EXPECT_EQ(cache.num_rows(), 0U);
}

// A block of several documents is one sample: its parts are told apart.
TEST(SignalCache, PartsOfABlock) {
  test::CorpusFixture fixture(0);
  fixture.options.files.clear();
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(static_cast<std::size_t>(3 + i % 5), 'a') + "\n";
  fixture.add_text("text.txt", text);
  fixture.options.format = Format::text;
  fixture.options.max_length = 16;
  fixture.options.text.document_separator = Separator::line;
  fixture.options.text.document_mask = true;
  const auto view = fixture.dataset()->epoch(0);
  std::vector<Sequence> sequences;
  for (std::uint64_t place = 0; place < view->size(); ++place) {
    sequences.clear();
    view->append_sequences(place, sequences);
    ASSERT_GT(sequences.size(), 1U);
    for (std::size_t i = 0; i < sequences.size(); ++i) EXPECT_EQ(sequences[i].part, i);
  }
}

}  // namespace
}  // namespace wmtp::data
