// The token cache: its content, its key, when it is built anew, and damage.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/data/tokens/cache_builder.h"

namespace wmtp::data {
namespace {

using test::CorpusFixture;
using test::FakeTokenizer;
using test::row_of;
using wmtp::test::slurp;
using wmtp::test::write_file;

TEST(TokenCache, HoldsTheEncodedRows) {
  for (const std::int64_t vocab : {300, 70000}) {  // 2 and 4 bytes a token
    CorpusFixture fixture;
    fixture.tokenizer = FakeTokenizer(true, vocab);
    const auto corpus = fixture.corpus();
    EXPECT_EQ(corpus->files()[0]->cache.facts().token_bytes, vocab > 65536 ? 4u : 2u);
    const RowEncoder encoder(fixture.tokenizer, {});
    for (std::uint32_t i = 0; i < corpus->num_rows(); ++i) {
      EncodedRow expected;
      const std::string output(1 + (i * 37) % 90, static_cast<char>('a' + i % 26));
      const std::string instruction = "task " + std::to_string(i / 4);
      encoder.encode(row_of(instruction, "", output), expected);
      const RowCut cut = corpus->cut(i);
      std::vector<std::int32_t> ids(cut.length());
      corpus->copy_row(i, cut, ids);
      EXPECT_EQ(ids, expected.ids);
      EXPECT_EQ(cut.prompt_len, expected.prompt_len);
    }
  }
}

TEST(TokenCache, IsByteIdenticalForAnyNumberOfThreads) {
  CorpusFixture fixture(20000);
  std::string expected;
  for (int threads : {1, 2, 5}) {
    fixture.options.cache.num_threads = threads;
    fixture.options.cache.force = true;
    const std::string bytes = slurp(fixture.corpus()->files()[0]->cache.path());
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected);
  }
}

TEST(TokenCache, KeyFollowsWhatDecidesTheTokens) {
  CacheIdentity base;
  base.tokenizer_fingerprint = "t";
  std::set<std::string> keys{to_hex(cache_key(base))};
  const auto expect_new = [&](auto change) {
    CacheIdentity other = base;
    change(other);
    EXPECT_TRUE(keys.insert(to_hex(cache_key(other))).second);
  };
  expect_new([](CacheIdentity& i) { i.tokenizer_fingerprint = "u"; });
  expect_new([](CacheIdentity& i) { i.data_fingerprint[3] = 1; });
  expect_new([](CacheIdentity& i) { i.encode.prompt_template = PromptTemplate::raw; });
  expect_new([](CacheIdentity& i) { i.encode.tokenize = Tokenize::split; });
  expect_new([](CacheIdentity& i) { i.encode.add_bos = AutoBool::no; });
  expect_new([](CacheIdentity& i) { i.encode.append_eos = false; });
  expect_new([](CacheIdentity& i) { i.encode.allow_special_tokens = true; });
  expect_new([](CacheIdentity& i) { i.kind = CacheKind::documents; });
  expect_new([](CacheIdentity& i) { i.kind = CacheKind::documents, i.text.skip_empty = false; });
  expect_new([](CacheIdentity& i) { i.kind = CacheKind::documents, i.text.eos_between = false; });
}

TEST(TokenCache, IsReusedAndRebuiltWhenTheDataChanges) {
  CorpusFixture fixture;
  const auto path = fixture.corpus()->files()[0]->cache.path();
  const auto time = std::filesystem::last_write_time(path);
  EXPECT_EQ(fixture.corpus()->files()[0]->cache.path(), path);
  EXPECT_EQ(std::filesystem::last_write_time(path), time);
  write_file(fixture.dir / "train.jsonl", CorpusFixture::row(9) + "\n");
  fixture.options.cache.auto_cache = false;
  EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::data, "wmtp data");
  fixture.options.cache.auto_cache = true;
  const auto changed = fixture.corpus();
  EXPECT_NE(changed->files()[0]->cache.path(), path);
  EXPECT_EQ(changed->num_rows(), 1u);
}

TEST(TokenCache, DamageIsNamedWithFileAndBytes) {
  CorpusFixture fixture;
  std::filesystem::path path;
  std::uint64_t tokens_offset = 0;
  {
    const auto corpus = fixture.corpus();
    path = corpus->files()[0]->cache.path();
    tokens_offset = std::filesystem::file_size(path) - 4 - 64;
  }
  const std::string good = slurp(path);
  std::string bytes = good;
  bytes[tokens_offset] ^= 1;
  write_file(path, bytes);
  // The small table and the tokens share the one MiB here, so opening already finds it.
  EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::data, "damaged (CRC-32C)");
  EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::data, "wmtp data tokenize --force");
  write_file(path, good.substr(0, good.size() - 1));
  EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::data, "its header says");
  write_file(path, good);
  EXPECT_EQ(fixture.corpus()->num_rows(), 53u);
}

TEST(TokenCache, TokensAreCheckedWhenFirstTouched) {
  CorpusFixture fixture(20000);
  const auto path = fixture.corpus()->files()[0]->cache.path();
  std::string bytes = slurp(path);
  bytes[bytes.size() - 200] ^= 4;  // in the last MiB of tokens
  write_file(path, bytes);
  const auto corpus = fixture.corpus();
  const auto read = [&](std::uint32_t row) {
    const RowCut cut = corpus->cut(row);
    std::vector<std::int32_t> ids(cut.length());
    corpus->copy_row(row, cut, ids);
  };
  read(0);
  EXPECT_WMTP_ERROR(read(19999), ErrorKind::data, "damaged (CRC-32C)");
}

TEST(TokenCache, RowsWithoutTargetAreCountedAndNoCandidates) {
  CorpusFixture fixture;
  fixture.options.max_length = 140;  // prompts have about 150 tokens
  const auto corpus = fixture.corpus();
  EXPECT_EQ(corpus->counters().num_candidates, 0u);
  EXPECT_EQ(corpus->counters().num_without_target, 53u);
  EXPECT_EQ(corpus->rows_without_target().size(), 53u);
  EXPECT_WMTP_ERROR(Dataset(corpus, {}, Split::train), ErrorKind::data, "no samples");
  fixture.options.max_length = 170;
  fixture.options.truncate = Truncate::drop;
  const auto dropped = fixture.corpus();
  EXPECT_GT(dropped->counters().num_dropped_long, 0u);
  EXPECT_EQ(dropped->counters().num_candidates + dropped->counters().num_dropped_long, 53u);
}

TEST(TokenCache, GivenCacheMustBeOfTheSameTokenizer) {
  CorpusFixture fixture;
  const std::string path = fixture.corpus()->files()[0]->cache.path().string();
  fixture.options.files = {path};
  const auto corpus = fixture.corpus();
  EXPECT_EQ(corpus->format(), Format::tokens);
  EXPECT_EQ(Dataset(corpus, {}, Split::train).size(), 53u);
  fixture.tokenizer = FakeTokenizer(false);
  EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::config, "another tokenizer");
}

void arm(const std::string& spec) {
  failpoint::Options options;
  options.spec = spec;
  failpoint::configure(options);
}

// A write that fails leaves the old file, or none, and never a half one.
TEST(TokenCache, FailedWritesLeaveNothingBehind) {
  if (!failpoint::kCompiledIn) GTEST_SKIP();
  for (const char* point :
       {"index.write.half", "index.rename.before", "cache.write.half", "cache.rename.before"}) {
    CorpusFixture fixture;
    arm(std::string(point) + "=eio");
    EXPECT_WMTP_ERROR(fixture.corpus(), ErrorKind::io, "cannot write");
    arm("");
    for (const auto& entry : std::filesystem::directory_iterator(fixture.dir / ".wmtp-cache"))
      EXPECT_TRUE(entry.path().extension() == ".widx" &&
                  std::string_view(point).starts_with("cache"))
          << point << " left " << entry.path();
    EXPECT_EQ(fixture.corpus()->num_rows(), 53u) << "the healthy run passes";
  }
  CorpusFixture fixture;
  arm("cache.rename.before=skip");
  EXPECT_ANY_THROW(fixture.corpus()) << "without the rename there is no cache to open";
  arm("");
}

}  // namespace
}  // namespace wmtp::data
