// Encoding, truncation, the token cache, plain text.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/rng.h"
#include "wmtp/data/plan/text_blocks.h"
#include "wmtp/data/tokens/cache_builder.h"

namespace wmtp::data {
namespace {

using test::CorpusFixture;
using test::FakeTokenizer;
using wmtp::test::slurp;
using wmtp::test::TempDir;
using wmtp::test::write_file;

Row row_of(std::string_view instruction, std::string_view input, std::string_view output) {
  Row row;
  row.instruction = instruction, row.input = input, row.output = output;
  return row;
}

TEST(EncodeRow, PromptIsMaskedAndEosIsATarget) {
  const FakeTokenizer tokenizer;
  EncodedRow out;
  RowEncoder(tokenizer, {}).encode(row_of("add", "", "abc"), out);
  const std::string prompt =
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the "
      "request.\n\n### Instruction:\nadd\n\n### Response:\n";
  EXPECT_EQ(tokenizer.decode(out.ids, false), "<s>" + prompt + "abc</s>");
  EXPECT_EQ(out.prompt_len, prompt.size() + 1);
  EXPECT_EQ(out.ids.size() - out.prompt_len, 4u);
  EXPECT_EQ(out.flags, kTokenRowBos | kTokenRowEos);
}

TEST(EncodeRow, ATokenAcrossTheBorderBelongsToTheResponse) {
  const FakeTokenizer tokenizer;
  EncodedRow joint, split;
  RowEncoder(tokenizer, {}).encode(row_of("add", "", "Xbc"), joint);
  EXPECT_TRUE(joint.flags & kTokenRowMerged);
  EXPECT_EQ(joint.ids[joint.prompt_len], FakeTokenizer::kMerged);
  EncodeSettings settings;
  settings.tokenize = Tokenize::split;
  RowEncoder(tokenizer, settings).encode(row_of("add", "", "Xbc"), split);
  EXPECT_FALSE(split.flags & kTokenRowMerged);
  EXPECT_EQ(split.prompt_len, joint.prompt_len + 1);
  EXPECT_EQ(tokenizer.decode(split.ids, false), tokenizer.decode(joint.ids, false));
}

TEST(EncodeRow, SpecialTokensInFieldsAreOrdinaryText) {
  const FakeTokenizer tokenizer(false);
  EncodeSettings settings;
  settings.prompt_template = PromptTemplate::chatml;
  EncodedRow out;
  RowEncoder(tokenizer, settings).encode(row_of("<|im_end|>", "", "<|im_start|>"), out);
  const auto count = [&](tokenizer::TokenId id) {
    return std::count(out.ids.begin(), out.ids.end(), id);
  };
  EXPECT_EQ(count(FakeTokenizer::kStart), 2);
  EXPECT_EQ(count(FakeTokenizer::kEnd), 2);  // of the user's turn, and the end of the response
  EXPECT_EQ(out.ids.back(), FakeTokenizer::kEnd);
  settings.allow_special_tokens = true;
  RowEncoder(tokenizer, settings).encode(row_of("<|im_end|>", "", "<|im_start|>"), out);
  EXPECT_EQ(count(FakeTokenizer::kStart), 3);
}

TEST(Truncation, ThreeModes) {
  const StoredRow row{20, 12, kTokenRowBos | kTokenRowEos};  // BOS, 11 prompt, 7 output, EOS
  RowCut cut = cut_row(row, 20, Truncate::right);
  EXPECT_FALSE(cut.truncated);
  EXPECT_TRUE(cut.ends_with_eos);
  cut = cut_row(row, 15, Truncate::right);
  EXPECT_TRUE(cut.truncated && !cut.ends_with_eos && cut.has_target());
  EXPECT_EQ(cut.length(), 15u);
  EXPECT_EQ(cut.lost_tokens, 5u);
  EXPECT_FALSE(cut_row(row, 12, Truncate::right).has_target());
  EXPECT_TRUE(cut_row(row, 13, Truncate::right).has_target());
  cut = cut_row(row, 15, Truncate::keep_response);  // BOS + the last 6 of the prompt + all 8
  EXPECT_EQ(cut.head, 1u);
  EXPECT_EQ(cut.tail_begin, 6u);
  EXPECT_EQ(cut.tail, 14u);
  EXPECT_EQ(cut.prompt_len, 7u);
  EXPECT_TRUE(cut.ends_with_eos);
  cut = cut_row(row, 5, Truncate::keep_response);  // BOS + the first 4 of the response
  EXPECT_EQ(cut.tail_begin, 12u);
  EXPECT_EQ(cut.prompt_len, 1u);
  EXPECT_EQ(cut.length(), 5u);
  EXPECT_FALSE(cut.ends_with_eos);
  EXPECT_TRUE(cut_row(row, 19, Truncate::drop).dropped);
  EXPECT_FALSE(cut_row({1, 0, 0}, 9, Truncate::right).has_target()) << "one token has no source";
}

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

// ---- plain text ----

struct TextFixture {
  TempDir dir;
  FakeTokenizer tokenizer{false};
  DatasetOptions options;
  std::vector<std::string> documents;

  TextFixture() {
    options.max_length = 16;
    options.cache.num_threads = 1;
    std::string jsonl;
    for (int i = 0; i < 23; ++i) {
      documents.push_back(i % 5 == 4 ? " "
                                     : "doc " + std::to_string(i) +
                                           std::string(static_cast<std::size_t>(i * 7 % 30), 'x'));
      jsonl += R"({"text": ")" + documents.back() + "\"}\n";
    }
    write_file(dir / "a.jsonl", jsonl);
    options.files = {(dir / "a.jsonl").string()};
  }
  std::shared_ptr<const Corpus> corpus() const {
    return std::make_shared<Corpus>(options, tokenizer, false);
  }
  // The ten-line reference: documents with EOS, end to end.
  std::vector<std::int32_t> stream() const {
    std::vector<std::int32_t> ids;
    for (const std::string& document : documents) {
      if (options.text.skip_empty && document == " ") continue;
      for (const char c : document) ids.push_back(static_cast<unsigned char>(c) + 4);
      if (options.text.eos_between) ids.push_back(FakeTokenizer::kEos);
    }
    return ids;
  }
  std::vector<std::int32_t> blocks_joined(const Dataset& dataset) const {
    std::vector<std::int32_t> all;
    const auto view = dataset.epoch(0);
    std::vector<Sequence> sequences;
    for (std::uint64_t i = 0; i < view->size(); ++i) view->append_sequences(i, sequences);
    for (const Sequence& sequence : sequences) {
      std::vector<std::int32_t> ids(sequence.length);
      view->copy_tokens(sequence, ids);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }
};

TEST(Text, BlocksAreTheStreamCutEveryTTokens) {
  TextFixture fixture;
  for (const bool eos : {true, false})
    for (const bool skip : {true, false})
      for (const bool drop_tail : {true, false}) {
        fixture.options.text.eos_between = eos;
        fixture.options.text.skip_empty = skip;
        fixture.options.text.drop_tail = drop_tail;
        SamplingOptions sampling;
        sampling.shuffle = false;
        const Dataset dataset(fixture.corpus(), sampling, Split::train);
        auto expected = fixture.stream();
        if (drop_tail) expected.resize(expected.size() / 16 * 16);
        EXPECT_EQ(dataset.size(), (expected.size() + 15) / 16);
        EXPECT_EQ(fixture.blocks_joined(dataset), expected);
      }
}

TEST(Text, ShortCorpusIsOneShortBlock) {
  TextFixture fixture;
  fixture.options.max_length = 100000;
  const Dataset dataset(fixture.corpus(), {}, Split::train);
  ASSERT_EQ(dataset.size(), 1u);
  EXPECT_EQ(fixture.blocks_joined(dataset), fixture.stream());
}

TEST(Text, DocumentMaskCutsBlocksAtDocuments) {
  TextFixture fixture;
  fixture.options.text.document_mask = true;
  SamplingOptions sampling;
  sampling.shuffle = false;
  const Dataset dataset(fixture.corpus(), sampling, Split::train);
  auto expected = fixture.stream();
  expected.resize(expected.size() / 16 * 16);
  EXPECT_EQ(fixture.blocks_joined(dataset), expected);
  const auto view = dataset.epoch(0);
  std::vector<Sequence> sequences;
  for (std::uint64_t i = 0; i < view->size(); ++i) view->append_sequences(i, sequences);
  EXPECT_GT(sequences.size(), dataset.size());
  std::size_t at = 0;
  for (const Sequence& sequence : sequences) {
    at += sequence.length;
    EXPECT_TRUE(at % 16 == 0 || expected[at - 1] == FakeTokenizer::kEos)
        << "a part ends at its document or block";
    for (std::size_t i = at - sequence.length; i + 1 < at; ++i)
      EXPECT_NE(expected[i], FakeTokenizer::kEos);
  }
}

TEST(Text, ShuffledDocumentsAreRepackedEachEpoch) {
  TextFixture fixture;
  fixture.options.text.shuffle = TextShuffle::documents;
  fixture.options.text.drop_tail = false;
  const Dataset dataset(fixture.corpus(), {}, Split::train);
  const auto joined = fixture.blocks_joined(dataset);
  auto sorted = joined, expected = fixture.stream();
  EXPECT_NE(joined, expected);
  std::sort(sorted.begin(), sorted.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(sorted, expected);
  const std::string text = fixture.tokenizer.decode(joined, false);
  for (const std::string& document : fixture.documents)
    if (document != " ") {
      EXPECT_NE(("</s>" + text).find("</s>" + document + "</s>"), std::string::npos) << document;
    }
}

TEST(Text, SeparatorsOfPlainFiles) {
  TempDir dir;
  write_file(dir / "t.txt", "\xEF\xBB\xBFone\ntwo\r\n\n\n  \nthree\n\nfour");
  const FakeTokenizer tokenizer(false);
  const auto documents = [&](Separator separator) {
    DatasetOptions options;
    options.files = {(dir / "t.txt").string()};
    options.max_length = 1000;
    options.text.document_separator = separator;
    const Corpus corpus(options, tokenizer, false);
    std::vector<std::int32_t> ids(corpus.num_tokens());
    corpus.files()[0]->cache.copy(0, ids);
    EXPECT_EQ(corpus.files()[0]->cache.facts().split_documents, 0u);
    return tokenizer.decode(ids, false);
  };
  EXPECT_EQ(documents(Separator::file), "one\ntwo\r\n\n\n  \nthree\n\nfour</s>");
  EXPECT_EQ(documents(Separator::blank_line), "one\ntwo</s>three</s>four</s>");
  EXPECT_EQ(documents(Separator::line), "one</s>two</s>three</s>four</s>");
}

TEST(Text, InvalidUtf8IsNamedWithLineAndColumn) {
  TempDir dir;
  write_file(dir / "t.txt", "good\nbad\xFF\n");
  const FakeTokenizer tokenizer(false);
  DatasetOptions options;
  options.files = {(dir / "t.txt").string()};
  EXPECT_WMTP_ERROR(Corpus(options, tokenizer, false), ErrorKind::data, "t.txt:2:4: invalid UTF-8");
}

TEST(Text, LongDocumentsAreReadInPiecesButStayOne) {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i) + "\n";
  write_file(dir / "t.txt", text);
  const FakeTokenizer tokenizer(false);
  DatasetOptions options;
  options.files = {(dir / "t.txt").string()};
  options.bad_lines.max_line_bytes = 500;
  const Corpus corpus(options, tokenizer, false);
  EXPECT_GT(corpus.files()[0]->cache.facts().split_documents, 3u);
  std::vector<std::int32_t> ids(corpus.num_tokens());
  corpus.files()[0]->cache.copy(0, ids);
  EXPECT_EQ(tokenizer.decode(ids, false), text + "</s>");
}

TEST(Format, IsDetectedOrTheKeysAreListed) {
  TempDir dir;
  write_file(dir / "x.jsonl", "\n{\"question\": 1, \"answer\": 2}\n");
  EXPECT_WMTP_ERROR(detect_format(dir / "x.jsonl", {}), ErrorKind::data, "keys: question, answer");
  write_file(dir / "y.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_EQ(detect_format(dir / "y.jsonl", {}), Format::text);
}

}  // namespace
}  // namespace wmtp::data
