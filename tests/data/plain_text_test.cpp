// Plain text: documents, the blocks they are cut into, and how the format of a file is found.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/plan/text_blocks.h"

namespace wmtp::data {
namespace {

using test::FakeTokenizer;
using wmtp::test::TempDir;
using wmtp::test::write_file;

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
