// Steps, ranks, resume, batches, the prefetch thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include "data/corpus_fixture.h"
#include "support/expect_error.h"
#include "wmtp/core/log.h"
#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/loader.h"

namespace wmtp::data {
namespace {

using test::CorpusFixture;

// Building caches is told on the log; the tests build hundreds.
class QuietLog : public ::testing::Environment {
  void SetUp() override { log::configure({.level = log::Level::error}); }
};
const auto* const kQuietLog = ::testing::AddGlobalTestEnvironment(new QuietLog);

using Ids = std::vector<std::uint64_t>;

TrainPlanner::Run run_of(int world, int rank, std::uint32_t batch, std::uint32_t accumulation = 1) {
  TrainPlanner::Run run;
  run.shape = {world, rank, batch, accumulation};
  run.collate.num_heads = 4;
  return run;
}

std::vector<MicroBatchPlan> all_plans(const std::shared_ptr<const Dataset>& dataset,
                                      const TrainPlanner::Run& run) {
  TrainPlanner planner(dataset, run);
  std::vector<MicroBatchPlan> plans;
  MicroBatchPlan plan;
  while (planner.next(plan)) plans.push_back(plan);
  return plans;
}

Ids ids_of(const std::vector<Sequence>& sequences) {
  Ids ids;
  for (const Sequence& sequence : sequences) ids.push_back(sequence.sample_id);
  return ids;
}

// The order of samples as all ranks together take it: micro-batch by micro-batch, rank by rank.
Ids global_order(const std::shared_ptr<const Dataset>& dataset, int world, std::uint32_t batch,
                 std::uint32_t accumulation, double epochs = 1, std::uint64_t epoch = 0,
                 std::uint64_t taken = 0) {
  std::vector<std::vector<MicroBatchPlan>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    TrainPlanner::Run run = run_of(world, rank, batch, accumulation);
    run.num_epochs_millionths = epochs_in_millionths(epochs);
    run.epoch = epoch, run.samples_taken = taken;
    ranks.push_back(all_plans(dataset, run));
    EXPECT_EQ(ranks.back().size(), ranks.front().size())
        << "every rank runs the same number of micro-batches";
  }
  Ids order;
  for (std::size_t i = 0; i < ranks.front().size(); ++i)
    for (const auto& plans : ranks)
      for (std::uint64_t id : ids_of(plans[i].sequences)) order.push_back(id);
  return order;
}

TEST(Steps, OneToEightRanksTakeTheSameOrder) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  const Ids expected = global_order(dataset, 1, 1, 1, 2.4);
  EXPECT_EQ(expected.size(), 53u + 53 + 21);
  EXPECT_EQ(std::set<std::uint64_t>(expected.begin(), expected.begin() + 53).size(), 53u);
  EXPECT_NE(Ids(expected.begin(), expected.begin() + 53),
            Ids(expected.begin() + 53, expected.begin() + 106));
  for (int world = 1; world <= 8; ++world)
    for (std::uint32_t batch : {1u, 2u, 3u})
      for (std::uint32_t accumulation : {1u, 3u})
        EXPECT_EQ(global_order(dataset, world, batch, accumulation, 2.4), expected)
            << world << " " << batch;
}

TEST(Steps, SlicesOfRanksAreDisjointCompleteAndEven) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  for (int world = 1; world <= 8; ++world) {
    std::set<std::uint64_t> all;
    std::vector<std::size_t> sizes;
    for (int rank = 0; rank < world; ++rank) {
      std::size_t count = 0;
      for (const MicroBatchPlan& plan : all_plans(dataset, run_of(world, rank, 2)))
        for (std::uint64_t id : ids_of(plan.sequences)) EXPECT_TRUE(all.insert(id).second), ++count;
      sizes.push_back(count);
    }
    EXPECT_EQ(all.size(), 53u);
    EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()) -
                  *std::min_element(sizes.begin(), sizes.end()),
              2u);
  }
}

TEST(Steps, GroupsOfAStepDoNotDependOnTheWorld) {
  const CorpusFixture fixture;
  const auto dataset = fixture.dataset();
  // 24 samples a step in groups of 2, on 1, 2, 3, 4, 6 ranks.
  std::set<std::set<Ids>> seen;
  for (int world : {1, 2, 3, 4, 6}) {
    std::set<Ids> groups;
    for (int rank = 0; rank < world; ++rank)
      for (const auto& plan :
           all_plans(dataset, run_of(world, rank, 2, static_cast<std::uint32_t>(12 / world))))
        if (!plan.sequences.empty()) groups.insert(ids_of(plan.sequences));
    seen.insert(groups);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Steps, ResumeAtEverySampleUnderAnyShape) {
  const CorpusFixture fixture(17);
  const auto dataset = fixture.dataset();
  const Ids expected = global_order(dataset, 1, 1, 1, 2);
  for (std::uint64_t taken = 0; taken <= 17; ++taken)
    for (const auto& [world, batch, accumulation] :
         {std::tuple(1, 1u, 1u), {3, 2u, 1u}, {2, 1u, 4u}, {8, 3u, 1u}})
      for (std::uint64_t epoch : {0u, 1u}) {
        const Ids rest = global_order(dataset, world, batch, accumulation, 2, epoch, taken);
        EXPECT_EQ(rest, Ids(expected.begin() + static_cast<std::ptrdiff_t>(epoch * 17 + taken),
                            expected.end()));
      }
}

TEST(Steps, CursorsContinueWhereTheStepEnded) {
  const CorpusFixture fixture(17);
  SamplingOptions sampling;
  sampling.resample_each_epoch = true;
  sampling.n_samples = 11;
  const auto dataset = fixture.dataset(sampling);
  TrainPlanner::Run run = run_of(2, 0, 2);
  run.num_epochs_millionths = epochs_in_millionths(3);
  const auto plans = all_plans(dataset, run);
  EXPECT_EQ(plans.size(), 9u);  // 3 steps of 4, 4, 3 samples an epoch
  EXPECT_EQ(plans.back().step + 1, steps_left(3'000'000, 11, 4));
  for (std::size_t i = 0; i + 1 < plans.size(); ++i) {
    const Cursor cursor = plans[i].cursor_after;
    EXPECT_EQ(cursor_from_json(Json::parse(to_json(cursor).dump())), cursor);
    const Cursor here = dataset->cursor_at(cursor.epoch, 0);
    EXPECT_EQ(continue_from(cursor, here, false), cursor);
    TrainPlanner::Run rest = run;
    rest.epoch = cursor.epoch, rest.samples_taken = cursor.samples_taken;
    const auto after = all_plans(dataset, rest);
    ASSERT_EQ(after.size(), plans.size() - i - 1);
    for (std::size_t j = 0; j < after.size(); ++j)
      EXPECT_EQ(ids_of(after[j].sequences), ids_of(plans[i + 1 + j].sequences));
    EXPECT_EQ(steps_left(3'000'000, 11, 4, cursor.epoch, cursor.samples_taken), after.size());
  }
}

TEST(Steps, ChangedDataIsRefusedOrBeginsTheNextEpoch) {
  const Cursor saved{2, 7, 42, 100, "list", "data", "tok"};
  Cursor current = saved;
  current.samples_taken = 0;
  EXPECT_EQ(continue_from(saved, current, false), saved);
  current.data_fingerprint = "other";
  EXPECT_WMTP_ERROR(continue_from(saved, current, false), ErrorKind::config, "the data files");
  const Cursor next = continue_from(saved, current, true);
  EXPECT_EQ(next.epoch, 3u);
  EXPECT_EQ(next.samples_taken, 0u);
  EXPECT_EQ(next.data_fingerprint, "other");
}

TEST(Steps, FractionsOfEpochsAreIntegers) {
  EXPECT_EQ(samples_in_epoch(epochs_in_millionths(1.2), 1, 10), 2u);
  EXPECT_EQ(steps_left(epochs_in_millionths(1.2), 10, 4), 3u + 1);
  EXPECT_EQ(steps_left(epochs_in_millionths(2), 10, 4), 6u);
  EXPECT_EQ(steps_left(epochs_in_millionths(0.05), 10, 4), 0u);
  EXPECT_EQ(steps_left(epochs_in_millionths(0.3), 10, 4), 1u);
}

// Samples of every step over all ranks and micro-batches.
std::vector<std::size_t> step_sizes(const std::shared_ptr<const Dataset>& dataset, int world,
                                    std::uint32_t batch, std::uint32_t accumulation,
                                    double epochs) {
  std::map<std::uint64_t, std::size_t> sizes;
  for (int rank = 0; rank < world; ++rank) {
    TrainPlanner::Run run = run_of(world, rank, batch, accumulation);
    run.num_epochs_millionths = epochs_in_millionths(epochs);
    for (const MicroBatchPlan& plan : all_plans(dataset, run))
      sizes[plan.step] += plan.sequences.size();
  }
  std::vector<std::size_t> out;
  for (const auto& [step, size] : sizes) out.push_back(size);
  return out;
}

// Vector V47.
TEST(Steps, StepSizesDoNotDependOnTheShape) {
  const CorpusFixture fixture(10);
  const auto dataset = fixture.dataset();
  for (const auto& [world, batch, accumulation] :
       {std::tuple(2, 2u, 2u), {1, 8u, 1u}, {1, 1u, 8u}}) {
    EXPECT_EQ(step_sizes(dataset, world, batch, accumulation, 1.5),
              (std::vector<std::size_t>{8, 2, 5}));
    EXPECT_EQ(step_sizes(dataset, world, batch, accumulation, 1.2),
              (std::vector<std::size_t>{8, 2, 2}));
  }
  EXPECT_EQ(steps_left(epochs_in_millionths(1.5), 10, 8), 3u);
  EXPECT_EQ(steps_left(epochs_in_millionths(1.2), 10, 8), 3u);
}

// Vector V48.
TEST(Steps, PlacesOfMicroBatchesAndRanks) {
  const CorpusFixture fixture(10);
  const auto dataset = fixture.dataset();
  const Ids order = global_order(dataset, 1, 1, 1, 1.5);
  // Step 1 takes places 8 and 9 of epoch 0 (g = 2), step 2 the first 5 of epoch 1 (g = 5).
  const auto places = [&](int rank, std::uint64_t step) {
    TrainPlanner::Run run = run_of(2, rank, 2, 2);
    run.num_epochs_millionths = epochs_in_millionths(1.5);
    std::vector<Ids> micro_batches;
    for (const MicroBatchPlan& plan : all_plans(dataset, run))
      if (plan.step == step) micro_batches.push_back(ids_of(plan.sequences));
    return micro_batches;
  };
  EXPECT_EQ(places(0, 2), (std::vector<Ids>{{order[10], order[11]}, {order[14]}}));
  EXPECT_EQ(places(1, 2), (std::vector<Ids>{{order[12], order[13]}, {}}));
  EXPECT_EQ(places(0, 1), (std::vector<Ids>{{order[8], order[9]}}));
  EXPECT_EQ(places(1, 1), (std::vector<Ids>{{}}));
}

TEST(Steps, ResampledEpochsDifferAndCurriculumCountsPerPiece) {
  const CorpusFixture fixture;
  SamplingOptions sampling;
  sampling.n_samples = 20;
  sampling.resample_each_epoch = true;
  auto dataset = fixture.dataset(sampling);
  EXPECT_NE(dataset->list_hash(0), dataset->list_hash(1));
  EXPECT_EQ(dataset->list_hash(0), dataset->list_hash(0));
  sampling = {};
  sampling.n_samples = 20;
  sampling.curriculum_learning = true;
  sampling.difficulty_bins = {{"low", 0, 1}, {"high", 2, 4}};
  sampling.curriculum_schedule = {{0, 0.5, {{"low", 1}}}, {0.5, 1, {{"high", 1}}}};
  dataset = fixture.dataset(sampling);
  const Ids order = global_order(dataset, 1, 1, 1);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto difficulty =
        dataset->corpus().table().difficulty(static_cast<std::uint32_t>(order[i]));
    EXPECT_EQ(difficulty <= 1, i < 10) << i;
  }
  EXPECT_EQ(global_order(dataset, 3, 2, 1, 1, 0, 7), Ids(order.begin() + 7, order.end()));
}

// ---- batches ----

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

// ---- the prefetch thread ----

class BrokenPlanner : public BatchPlanner {
 public:
  explicit BrokenPlanner(std::shared_ptr<const Dataset> dataset)
      : inner_(std::move(dataset), run_of(1, 0, 1)) {}
  bool next(MicroBatchPlan& plan) override {
    if (++count_ == 3) throw Error(ErrorKind::data, "data", "broken on purpose");
    return inner_.next(plan);
  }

 private:
  TrainPlanner inner_;
  int count_ = 0;
};

TEST(Prefetch, ErrorsAreParkedAndRethrownInOrder) {
  const CorpusFixture fixture;
  Loader loader(std::make_unique<BrokenPlanner>(fixture.dataset()), {});
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  EXPECT_WMTP_ERROR(loader.next(), ErrorKind::data, "broken on purpose");
  EXPECT_WMTP_ERROR(loader.next(), ErrorKind::data, "broken on purpose");
}

TEST(Prefetch, ShutdownNeverBlocksOnAFullQueue) {
  const CorpusFixture fixture;
  for (int threads : {1, 3}) {
    LoaderOptions options;
    options.prefetch_batches = 2;
    options.num_threads = threads;
    Loader loader(std::make_unique<TrainPlanner>(fixture.dataset(), run_of(1, 0, 1)), options);
    EXPECT_TRUE(loader.next());
  }
}

class CountingAllocator : public HostAllocator {
 public:
  std::atomic<std::int64_t> live{0}, most{0};
  std::byte* allocate(std::size_t bytes) override {
    const std::int64_t now = ++live;
    if (now > most) most = now;
    return inner->allocate(bytes);
  }
  void release(std::byte* memory, std::size_t bytes) override {
    --live;
    inner->release(memory, bytes);
  }
  std::shared_ptr<HostAllocator> inner = heap_allocator();
};

TEST(Prefetch, NeverHoldsMoreThanTheQueueAllows) {
  const CorpusFixture fixture;
  auto allocator = std::make_shared<CountingAllocator>();
  {
    LoaderOptions options;
    options.prefetch_batches = 3;
    options.allocator = allocator;
    Loader loader(std::make_unique<TrainPlanner>(fixture.dataset(), run_of(1, 0, 1)), options);
    while (loader.next()) {
    }
    EXPECT_LE(allocator->most, 3 + 2);
  }
  EXPECT_EQ(allocator->live, 0);
}

}  // namespace
}  // namespace wmtp::data
