// The index of a JSONL file, and the metadata it can be read from.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/fake_tokenizer.h"
#include "data/jsonl_rows.h"
#include "support/expect_error.h"
#include "wmtp/core/rng.h"
#include "wmtp/data/index/metadata_json.h"

namespace wmtp::data {
namespace {

using test::index_text;
using test::kGood;
using test::row_text;
using wmtp::test::slurp;
using wmtp::test::TempDir;
using wmtp::test::write_file;

TEST(Index, HoldsWhatTheRowsSay) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 50; ++i) text += row_text(i) + "\n";
  index_text(dir, text);
  const RowIndex index = RowIndex::open(dir / "train.widx");
  ASSERT_EQ(index.num_rows(), 50u);
  ASSERT_EQ(index.num_problems(), 7u);
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(text.substr(index.line_offset()[i], index.line_bytes()[i]),
              row_text(static_cast<int>(i)));
    EXPECT_EQ(index.problem_name(index.problem()[i]), "prob" + std::to_string(i % 7));
    EXPECT_EQ(index.difficulty()[i], static_cast<int>(i % 7 + 1));
    EXPECT_EQ((index.flags()[i] & kRowCorrect) != 0, i % 3 != 0);
    EXPECT_EQ(index.reward()[i], i % 3 != 0 ? 1.0f : 0.0f);
  }
}

TEST(Index, IsByteIdenticalForAnyNumberOfThreads) {
  TempDir dir;
  std::string text;
  for (int i = 0; text.size() < (std::size_t{9} << 20); ++i)
    text += i % 500 == 3 ? "bad\n" : row_text(i) + "\n";
  const test::FakeTokenizer tokenizer;
  write_file(dir / "train.jsonl", text);
  std::string expected;
  for (int threads : {1, 2, 3, 8}) {
    IndexRequest request;
    request.file = dir / "train.jsonl";
    request.index = dir / "train.widx";
    request.tokenizer = &tokenizer;
    request.bad_lines = {OnBadLine::skip, 0.1, 100000};
    request.num_threads = threads;
    build_index(request);
    const std::string bytes = slurp(dir / "train.widx");
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected) << threads;
  }
}

TEST(Index, GzipGivesTheSameRows) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 500; ++i) text += row_text(i) + "\n";
  index_text(dir, text);
  gzFile file = gzopen((dir / "z.jsonl.gz").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  IndexRequest request;
  request.file = dir / "z.jsonl.gz";
  request.index = dir / "z.widx";
  build_index(request);
  const RowIndex plain = RowIndex::open(dir / "train.widx"),
                 packed = RowIndex::open(dir / "z.widx");
  ASSERT_EQ(plain.num_rows(), packed.num_rows());
  EXPECT_TRUE(std::ranges::equal(plain.line_offset(), packed.line_offset()));
  EXPECT_TRUE(std::ranges::equal(plain.flags(), packed.flags()));
  const std::string bytes = slurp(dir / "z.jsonl.gz");
  write_file(dir / "cut.jsonl.gz", bytes.substr(0, bytes.size() / 2));
  request.file = dir / "cut.jsonl.gz";
  EXPECT_WMTP_ERROR(build_index(request), ErrorKind::data, "cut.jsonl.gz");
}

TEST(Index, StalenessFollowsSizeTimeAndContent) {
  TempDir dir;
  index_text(dir, std::string(kGood) + "\n");
  IndexRequest request;
  request.file = dir / "train.jsonl";
  request.index = dir / "train.widx";
  EXPECT_TRUE(index_is_current(request));
  std::filesystem::last_write_time(
      request.file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
  EXPECT_TRUE(index_is_current(request)) << "same bytes, other time: hashed and trusted";
  write_file(request.file, R"({"instruction": "abd", "input": "1 2", "output": "3"})"
                           "\n");
  EXPECT_FALSE(index_is_current(request));
  const CacheOptions off{.cache_dir = {},
                         .fallback_cache_dir = {},
                         .auto_cache = false,
                         .num_threads = 1,
                         .force = false,
                         .run_name = {}};
  EXPECT_WMTP_ERROR(open_or_build_index(request, off), ErrorKind::data, "wmtp data index");
  CacheOptions on = off;
  on.auto_cache = true;
  EXPECT_EQ(open_or_build_index(request, on).num_rows(), 1u);
  EXPECT_TRUE(index_is_current(request));
  request.bad_lines.max_line_bytes = 10000;
  EXPECT_FALSE(index_is_current(request)) << "another policy";
}

TEST(Index, DamageIsFoundAndNamed) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 50; ++i) text += row_text(i) + "\n";
  index_text(dir, text);
  const std::string good = slurp(dir / "train.widx");
  RngStream rng(3, "damage");
  for (int round = 0; round < 200; ++round) {
    std::string bytes = good;
    if (round % 2 == 0)
      bytes[rng.below(bytes.size())] ^= static_cast<char>(1u << rng.below(8));
    else
      bytes.resize(rng.below(bytes.size()));
    write_file(dir / "train.widx", bytes);
    EXPECT_WMTP_ERROR(RowIndex::open(dir / "train.widx"), ErrorKind::data, "train.widx");
  }
}

TEST(Metadata, WrittenFileReadsBackToTheSameIndex) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 30; ++i) text += i == 4 ? "\n" : row_text(i) + "\n";
  const test::FakeTokenizer tokenizer;
  write_file(dir / "train.jsonl", text);
  IndexRequest request;
  request.file = dir / "train.jsonl";
  request.index = dir / "a.widx";
  request.tokenizer = &tokenizer;
  build_index(request);
  const RowIndex index = RowIndex::open(dir / "a.widx");
  write_metadata_json(dir / "train_metadata.json", index, "train.jsonl");
  // The same rows without the fields: everything must come from the metadata.
  std::string bare;
  for (int i = 0; i < 30; ++i) bare += i == 4 ? "\n" : std::string(kGood) + "\n";
  write_file(dir / "bare.jsonl", bare);
  IndexRequest foreign;
  foreign.file = dir / "bare.jsonl";
  foreign.index = dir / "b.widx";
  foreign.metadata = dir / "train_metadata.json";
  build_index(foreign);
  const RowIndex other = RowIndex::open(dir / "b.widx");
  EXPECT_TRUE(std::ranges::equal(index.problem(), other.problem()));
  EXPECT_TRUE(std::ranges::equal(index.difficulty(), other.difficulty()));
  EXPECT_TRUE(std::ranges::equal(index.flags(), other.flags()));
  EXPECT_TRUE(std::ranges::equal(index.output_tokens(), other.output_tokens()));
  EXPECT_TRUE(other.has_token_counts());
  write_file(dir / "bare.jsonl", bare + kGood + "\n");
  EXPECT_WMTP_ERROR(build_index(foreign), ErrorKind::data, "stats.total is 30");
}

}  // namespace
}  // namespace wmtp::data
