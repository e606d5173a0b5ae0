#include "wmtp/data/demo_corpus.h"

#include <gtest/gtest.h>

#include <set>

#include "support/temp_dir.h"
#include "wmtp/core/json.h"
#include "wmtp/data/corpus.h"
#include "wmtp/data/plan/dataset.h"
#include "wmtp/data/summary.h"

namespace wmtp::data {
namespace {

TEST(DemoCorpus, IsReproducibleAndDiffersBySeed) {
  wmtp::test::TempDir a, b;
  write_demo_corpus(a.path(), 3, 100);
  write_demo_corpus(b.path(), 3, 100);
  for (const char* name : {"train.jsonl", "validation.jsonl", "text.txt", "tokenizer.json"})
    EXPECT_EQ(wmtp::test::slurp(a / name), wmtp::test::slurp(b / name)) << name;
  write_demo_corpus(b.path(), 4, 100);
  EXPECT_NE(wmtp::test::slurp(a / "train.jsonl"), wmtp::test::slurp(b / "train.jsonl"));
}

TEST(DemoCorpus, RightAndWrongSolutionsDiffer) {
  std::set<int> difficulties;
  int wrong = 0, shows_in_one_token = 0;
  for (const DemoRow& row : demo_rows(1, 0, 400)) {
    difficulties.insert(row.difficulty);
    const bool returns_y = row.output.ends_with("return y\n");
    if (row.is_correct) {
      EXPECT_TRUE(returns_y);
    }
    wrong += !row.is_correct;
    const bool odd_operator = row.output.find_first_of("/|") != std::string::npos;
    if (row.is_correct) {
      EXPECT_FALSE(odd_operator);
    }
    shows_in_one_token += !returns_y || odd_operator;
  }
  EXPECT_EQ(wrong, 200);
  EXPECT_GT(shows_in_one_token, 170);
  EXPECT_LT(shows_in_one_token, 200) << "some take reading the problem";
  EXPECT_EQ(difficulties, (std::set<int>{1, 2, 3, 4, 5}));
}

TEST(DemoCorpus, TrainsWithItsOwnTokenizer) {
  wmtp::test::TempDir dir;
  write_demo_corpus(dir.path(), 1, 200);
  const auto tokenizer = tokenizer::load_tokenizer(dir.path());
  EXPECT_LE(tokenizer->vocab_size(), 512);
  EXPECT_TRUE(tokenizer->adds_bos());
  const std::string text = wmtp::test::slurp(dir / "text.txt");
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids, false), text);
  EXPECT_LT(ids.size() * 2, text.size()) << "merges were learned";
  DatasetOptions options;
  options.files = {(dir / "train.jsonl").string()};
  options.max_length = 256;
  const auto corpus = std::make_shared<const Corpus>(options, *tokenizer, true);
  EXPECT_EQ(corpus->counters().num_candidates, 200u);
  SamplingOptions sampling;
  sampling.use_pairwise = true;
  const Dataset pairs(corpus, sampling, Split::train);
  EXPECT_EQ(pairs.size(), 100u);
  const DataSummary summary = summarize(pairs);
  EXPECT_EQ(summary.num_correct, 100u);
  EXPECT_LT(summary.lengths.max, 256u);
  const auto view = pairs.epoch(0);
  std::vector<Sequence> sequences;
  view->append_sequences(0, sequences);
  EXPECT_NE(marked_text(*view, sequences[0], *tokenizer).find(">>def "), std::string::npos);
}

}  // namespace
}  // namespace wmtp::data
