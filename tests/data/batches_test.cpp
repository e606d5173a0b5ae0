// What a batch holds: packed, padded, limited in tokens, in pairs; the shares of ranks, also in
// validation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/planned_batches.h"
#include "support/expect_error.h"

namespace wmtp::data {
namespace {

using test::all_plans;
using test::CorpusFixture;
using test::global_order;
using test::Ids;
using test::ids_of;
using test::run_of;

std::vector<HostBatch> load(const std::shared_ptr<const Dataset>& dataset,
                            const TrainPlanner::Run& run, int threads = 1) {
  LoaderOptions options;
  options.collate = run.collate;
  options.max_length = dataset->corpus().max_length();
  options.num_threads = threads;
  Loader loader(std::make_unique<TrainPlanner>(dataset, run), options);
  std::vector<HostBatch> batches;
  while (auto batch = loader.next()) {
    check_host_batch(*batch);
    batches.push_back(std::move(*batch));
  }
  return batches;
}

TEST(Batches, HeadCountsOfRanksSumToTheStep) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  std::map<std::uint64_t, std::vector<std::int64_t>> sums, promised;
  for (int rank = 0; rank < 3; ++rank)
    for (const HostBatch& batch : load(dataset, run_of(3, rank, 2, 2))) {
      auto& sum = sums[batch.step];
      sum.resize(4);
      for (std::size_t head = 0; head < 4; ++head) sum[head] += batch.head_targets[head];
      promised[batch.step].assign(batch.step_head_targets.begin(), batch.step_head_targets.end());
    }
  EXPECT_EQ(sums.size(), 5u);
  EXPECT_EQ(sums, promised);
}

TEST(Batches, PackedAndPaddedHoldTheSameDocuments) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  TrainPlanner::Run packed = run_of(1, 0, 4), padded = packed;
  packed.collate.pack_multiple = 64;
  padded.collate.packing = false;
  padded.collate.pad_multiple = 8;
  const auto a = load(dataset, packed), b = load(dataset, padded);
  ASSERT_EQ(a.size(), b.size());
  bool any_filler = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].num_tokens() % 64, 0u);
    EXPECT_EQ(b[i].row_stride % 8, 0);
    EXPECT_TRUE(std::ranges::equal(a[i].head_targets, b[i].head_targets));
    const bool filler = a[i].doc_flags.back() & kDocFiller;
    any_filler = any_filler || filler;
    ASSERT_EQ(a[i].num_docs() - (filler ? 1 : 0), b[i].num_docs());
    for (std::size_t d = 0; d < b[i].num_docs(); ++d) {
      const auto length = static_cast<std::size_t>(a[i].doc_len[d]);
      ASSERT_EQ(a[i].doc_len[d], b[i].doc_len[d]);
      EXPECT_EQ(a[i].sample_id[d], b[i].sample_id[d]);
      const auto left = a[i].tokens.subspan(static_cast<std::size_t>(a[i].doc_start[d]), length);
      const auto right = b[i].tokens.subspan(static_cast<std::size_t>(b[i].doc_start[d]), length);
      EXPECT_TRUE(std::ranges::equal(left, right));
      EXPECT_EQ(b[i].tokens[static_cast<std::size_t>(b[i].doc_start[d]) + length - 1],
                test::FakeTokenizer::kEos);
    }
  }
  EXPECT_TRUE(any_filler);
}

TEST(Batches, PaddingToMaxLength) {
  const CorpusFixture fixture(5);
  TrainPlanner::Run run = run_of(1, 0, 2);
  run.collate.packing = false;
  run.collate.pad_to_max_length = true;
  for (const HostBatch& batch : load(fixture.dataset(), run)) EXPECT_EQ(batch.row_stride, 400);
}

TEST(Batches, EmptyShareStillRuns) {
  const CorpusFixture fixture(5);
  TrainPlanner::Run run = run_of(8, 7, 1);
  run.collate.pack_multiple = 64;
  const auto batches = load(fixture.dataset(), run);
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].num_docs(), 0u);
  EXPECT_EQ(batches[0].num_tokens(), 0u);
  EXPECT_GT(batches[0].step_head_targets[0], 0);
}

TEST(Batches, TokenLimitRegroupsWithoutLosingOrder) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  for (const bool packing : {true, false}) {
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < 3; ++rank) {
      TrainPlanner::Run run = run_of(3, rank, 4);
      Ids plain, limited;
      for (const auto& plan : all_plans(dataset, run))
        for (std::uint64_t id : ids_of(plan.sequences)) plain.push_back(id);
      run.collate.packing = packing;
      run.collate.max_tokens_per_batch = 500;
      run.collate.pack_multiple = 64;
      const auto batches = load(dataset, run);
      for (const HostBatch& batch : batches) {
        EXPECT_LE(batch.num_tokens(), 500u);
        for (std::size_t d = 0; d < batch.num_docs(); ++d)
          if (!(batch.doc_flags[d] & kDocFiller)) limited.push_back(batch.sample_id[d]);
      }
      EXPECT_EQ(plain, limited);
      counts.push_back(batches.size());
    }
    EXPECT_EQ(std::set<std::size_t>(counts.begin(), counts.end()).size(), 1u);
  }
}

TEST(Batches, PairsAreNeighboursOfOnePrompt) {
  const CorpusFixture fixture;
  SamplingOptions sampling;
  sampling.use_pairwise = true;
  const auto dataset = fixture.dataset(sampling);
  std::int64_t pairs = 0;
  for (const HostBatch& batch : load(dataset, run_of(1, 0, 3))) {
    EXPECT_EQ(batch.num_docs() % 2, 0u);
    EXPECT_EQ(batch.step_pairs * 2, batch.step_sequences);
    for (std::size_t d = 0; d < batch.num_docs(); d += 2, ++pairs) {
      EXPECT_EQ(batch.pair_role[d], kPositive);
      EXPECT_EQ(batch.pair_role[d + 1], kNegative);
      EXPECT_EQ(batch.reward[d], 1.0f);
      EXPECT_EQ(batch.reward[d + 1], 0.0f);
      EXPECT_TRUE(batch.has_reward[d]);
      EXPECT_EQ(batch.prompt_len[d], batch.prompt_len[d + 1]);
    }
  }
  EXPECT_EQ(pairs, 26);
}

TEST(Batches, PairsWithDifferentPromptsNameBothLines) {
  CorpusFixture fixture(0);
  fixture.options.files.clear();
  fixture.add_text(
      "p.jsonl",
      R"({"instruction": "one", "output": "a", "task_id": "t_correct_0", "is_correct": true})"
      "\n"
      R"({"instruction": "two", "output": "b", "task_id": "t_incorrect_1", "is_correct": false})"
      "\n");
  SamplingOptions sampling;
  sampling.use_pairwise = true;
  EXPECT_WMTP_ERROR(fixture.dataset(sampling), ErrorKind::data, "p.jsonl:1 and ");
  EXPECT_WMTP_ERROR(fixture.dataset(sampling), ErrorKind::data, "p.jsonl:2 are a pair");
}

TEST(Batches, SeveralFilesHaveTheirOrdinalInTheSampleId) {
  CorpusFixture fixture(3);
  fixture.add("more.jsonl", 4);
  SamplingOptions sampling;
  sampling.shuffle = false;
  EXPECT_EQ(global_order(fixture.dataset(sampling), 1, 1, 1),
            (Ids{0, 1, 2, std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 1,
                 (std::uint64_t{1} << 40) + 2, (std::uint64_t{1} << 40) + 3}));
}

TEST(Batches, ThreadsChangeNothing) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  const auto a = load(dataset, run_of(2, 1, 3, 2), 1), b = load(dataset, run_of(2, 1, 3, 2), 4);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(a[i].tokens, b[i].tokens));
}

TEST(Validation, ContiguousSharesCoverTheSetOnce) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset({}, Split::validation);
  for (int world = 1; world <= 8; ++world) {
    Ids all;
    std::set<std::size_t> batches;
    std::int64_t targets = 0, promised = 0;
    for (int rank = 0; rank < world; ++rank) {
      LoaderOptions options;
      options.collate.num_heads = 2;
      Loader loader(std::make_unique<ValidationPlanner>(dataset, StepShape{world, rank, 4, 1}, 2),
                    options);
      std::size_t count = 0;
      while (auto batch = loader.next()) {
        ++count;
        check_host_batch(*batch);
        targets += batch->head_targets[1];
        promised = batch->step_head_targets[1];
        for (std::uint64_t id : batch->sample_id) all.push_back(id);
      }
      batches.insert(count);
    }
    EXPECT_EQ(batches.size(), 1u);
    EXPECT_EQ(targets, promised);
    Ids expected(53);
    for (std::size_t i = 0; i < 53; ++i) expected[i] = i;
    EXPECT_EQ(all, expected);
  }
}

}  // namespace
}  // namespace wmtp::data
