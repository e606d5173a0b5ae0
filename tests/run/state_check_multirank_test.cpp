// Ranks that drift apart: whatever differs is found, and the rank named. Controls: equal ranks
// pass.
#include "wmtp/run/checkpoints/state_check.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "run/tiny_run.h"
#include "support/expect_error.h"
#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

constexpr std::int64_t kWordsOfARow = 4096;  // of the digest's matrix; two floats each

std::unique_ptr<comm::ProcessGroupSession> joined_session() {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  return session;
}

// COLLECTIVE: rank 1 alone changes something, which must be found, and be gone when it is undone.
class OddRank {
 public:
  OddRank(LawRun& run, comm::ProcessGroupSession& session) : run_(run), session_(session) {}

  void expect_found(const Tensor& values, const std::function<void(const Tensor&)>& change) {
    EXPECT_NO_THROW(check()) << "the control";
    const Tensor before = values.clone();
    if (session_.rank() == 1) {
      change(values);
      EXPECT_FALSE(values.equal(before)) << "nothing was changed";
    }
    EXPECT_WMTP_ERROR(check(), ErrorKind::numeric, "the weights of the ranks 0, 1 differ");
    values.copy_(before);
    EXPECT_NO_THROW(check());
  }

  void expect_swap_found(const Tensor& values, std::int64_t a, std::int64_t b) {
    expect_found(values, [a, b](const Tensor& at) {
      const Tensor kept = at[a].clone();
      at[a].copy_(at[b]);
      at[b].copy_(kept);
    });
  }

 private:
  void check() { run::check_replicated(run_.model(), session_.reduce_group(), 1); }

  LawRun& run_;
  comm::ProcessGroupSession& session_;
};

void flip_lowest_bit(const Tensor& values, std::int64_t at) {
  values.view(at::kByte)[at * values.element_size()].bitwise_xor_(1);
}

TEST(StateCheckMultirank, ChangedAndSwappedElementsAreFound) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  auto session = joined_session();
  LawRun run(model::preset("micro"),
             {.strategy = parallel::Strategy::no_shard, .num_micro_batches = 2},
             {&session->gather_group(), &session->reduce_group()});
  run.step();
  OddRank rank(run, *session);
  const Tensor master = run.model().runtime().states()[0].master.values();
  ASSERT_GT(master.numel(), 2 * kWordsOfARow + 16);
  const std::int64_t last = master.numel() - 1;
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{77}, last})
    rank.expect_found(master, [at](const Tensor& values) { flip_lowest_bit(values, at); });
  rank.expect_swap_found(master, 4, 5);                     // of one word
  rank.expect_swap_found(master, 4, 10);                    // of one row
  rank.expect_swap_found(master, 4, 4 + 2 * kWordsOfARow);  // of one column
  rank.expect_swap_found(master, 4, 10 + 2 * kWordsOfARow);
  // The sign is the highest bit of a word: two of them cancel out in a weighted sum.
  master[7].copy_(-master[5]);
  rank.expect_swap_found(master, 5, 7);
  for (const Tensor& moment : {run.model().optimizer().moments().back().tensors().front(),
                               run.model().optimizer().moments().front().tensors().back()})
    rank.expect_found(moment, [](const Tensor& values) { flip_lowest_bit(values, 3); });
  session->finish();
}

TEST(StateCheckMultirank, FrozenWeightsAreCompared) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  auto session = joined_session();
  for (const auto strategy : {parallel::Strategy::no_shard, parallel::Strategy::shard_grad_op,
                              parallel::Strategy::full_shard}) {
    LawRun run(model::preset("micro"),
               {.strategy = strategy, .num_micro_batches = 2, .lora = model::LoraConfig{}},
               {&session->gather_group(), &session->reduce_group()});
    const Tensor frozen = run.frozen(0);
    if (strategy != parallel::Strategy::full_shard) {
      OddRank(run, *session).expect_found(frozen, [](const Tensor& values) {
        flip_lowest_bit(values, 1);
      });
    } else {  // every rank has its own part
      EXPECT_EQ(run::replica_digest(run.model(), session->reduce_group()), 0);
    }
  }
  session->finish();
}

// Codes, their scales and the vectors behind them, in whatever number of bytes.
TEST(StateCheckMultirank, MomentsInEightBitsAreCompared) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  auto session = joined_session();
  model::ModelConfig config = model::preset("micro");
  config.ffn_dim = 47;
  LawRun run(config,
             {.strategy = parallel::Strategy::no_shard,
              .num_micro_batches = 2,
              .recipe = optim::Recipe::int8},
             {&session->gather_group(), &session->reduce_group()});
  run.step();
  const std::vector<Tensor> kept = run.model().optimizer().moments().back().tensors();
  ASSERT_EQ(kept.size(), 6u);
  for (const Tensor& one : kept)
    OddRank(run, *session).expect_found(one, [](const Tensor& values) {
      flip_lowest_bit(values, values.numel() - 1);
    });
  session->finish();
}

// Three replicas of two shards each: the shards of one position are compared, trained and frozen.
TEST(StateCheckMultirank, ReplicasAreComparedByPosition) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 6, .timeout_s = 300}));
  auto session = joined_session();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group(),
                                session->shard_groups(2)};
  LawRun run(model::preset("micro"),
             {.strategy = parallel::Strategy::hybrid_shard,
              .shard_group_size = 2,
              .num_micro_batches = 6,
              .lora = model::LoraConfig{}},
             groups);
  run.step();
  auto check = [&] { run::check_replicated(run.model(), session->reduce_group(), 1); };
  EXPECT_NO_THROW(check()) << "the control";
  const std::int64_t before = run::replica_digest(run.model(), session->reduce_group());
  for (const Tensor& values :
       {run.frozen(0), run.model().optimizer().moments().front().tensors().front()}) {
    if (session->rank() == 3) flip_lowest_bit(values, 2);
    EXPECT_WMTP_ERROR(check(), ErrorKind::numeric,
                      "step 1: the weights of rank 3 differ from the others'");
    const std::int64_t after = run::replica_digest(run.model(), session->reduce_group());
    EXPECT_EQ(after != before, session->rank() == 2 || session->rank() == 3);
    if (session->rank() == 3) flip_lowest_bit(values, 2);
  }
  EXPECT_NO_THROW(check());
  session->finish();
}

// With three replicas it is known which of them is right.
void expect_named(std::vector<std::string> overrides, const std::string& message,
                  bool lora = true) {
  auto session = joined_session();
  const std::filesystem::path folder = worker_folder();
  if (session->rank() == 0) make_tiny_data(folder);
  session->gather_group().barrier("data");
  failpoint::configure(
      {.spec = "step.weights:rank=1:nth=5=damage", .rank = session->rank(), .log_path = {}});
  overrides.insert(overrides.begin(), "distributed.fsdp.sharding_strategy=NO_SHARD");
  overrides.insert(overrides.end(), {"checkpoint.save_dir=" + (folder / "saved").string()});
  {
    TinyRun run(*session, folder, {"baseline", lora}, overrides);
    EXPECT_WMTP_ERROR(run.run(), ErrorKind::numeric, message);
  }
  session->gather_group().barrier("ended");
  EXPECT_TRUE(std::filesystem::exists(folder / "saved" / checkpoint_at(4)));
  EXPECT_FALSE(std::filesystem::exists(folder / "saved" / checkpoint_at(8)));
  session->finish();
}

TEST(StateCheckMultirank, TheDamagedRankIsNamedByTheCheck) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3, .timeout_s = 300}));
  expect_named({"distributed.state_check_every=1", "checkpoint.save_every_steps=4"},
               "step 5: the weights of rank 1 differ from the others'");
}

TEST(StateCheckMultirank, TheDamagedRankIsNamedByTheVoteOfASave) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3, .timeout_s = 300}));
  expect_named({"distributed.state_check_every=0", "checkpoint.save_every_steps=4"},
               "differs on rank 1 of 3");
}

TEST(StateCheckMultirank, TheDamagedReplicaIsNamedByTheVoteOfASave) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 6, .timeout_s = 300}));
  expect_named(
      {"distributed.fsdp.sharding_strategy=HYBRID_SHARD", "distributed.fsdp.shard_group_size=2",
       "distributed.state_check_every=0", "checkpoint.save_every_steps=4"},
      "differs on rank 0, 1 of 6", /*lora=*/false);
}

}  // namespace
}  // namespace wmtp::test
