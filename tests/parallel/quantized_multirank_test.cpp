// Weights in NF4 have the same bits on any number of ranks and with any strategy.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "parallel/quantized_units.h"
#include "support/multi_process.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/session.h"

namespace wmtp::parallel {
namespace {

using test::quantized_units;
namespace ranks = wmtp::test;

std::vector<Tensor> frozen_of(Runtime& runtime) {
  runtime.fill(test::read_numbers);
  runtime.begin_evaluation();
  std::vector<Tensor> wholes;
  for (int unit = 0; unit < 3; ++unit) {
    wholes.push_back(runtime.acquire(UnitId(unit), false).frozen.clone());
    runtime.release(UnitId(unit));
  }
  return wholes;
}

void expect_the_bits_of_one_rank(comm::ProcessGroupSession& session, ParallelOptions options) {
  const auto alone = comm::make_single("alone", c10::Device(c10::kCPU));
  ParallelOptions single = options;
  single.strategy = Strategy::no_shard;
  Runtime expected(quantized_units(), single, {alone.get(), alone.get()});
  const std::vector<Tensor> wanted = frozen_of(expected);
  Runtime runtime(quantized_units(), options, groups_of(session, options));
  const std::vector<Tensor> found = frozen_of(runtime);
  for (std::size_t unit = 0; unit < found.size(); ++unit)
    EXPECT_TRUE(found[unit].equal(wanted[unit])) << name_of(options.strategy) << " " << unit;
  if (!options.shards_frozen()) return;
  EXPECT_LT(runtime.states()[1].quantized->bytes(), expected.states()[1].quantized->bytes());
}

void on_ranks(int count) {
  if (!ranks::is_worker()) return ranks::expect_success(ranks::launch_ranks({.ranks = count}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  for (const Strategy strategy :
       {Strategy::full_shard, Strategy::shard_grad_op, Strategy::no_shard, Strategy::hybrid_shard})
    for (const DType dtype : {kFloat32, kBFloat16}) {
      if (strategy == Strategy::hybrid_shard && count != 4) continue;
      ParallelOptions options;
      options.strategy = strategy;
      options.shard_group_size = strategy == Strategy::hybrid_shard ? 2 : 1;
      options.param_dtype = dtype;
      options.frozen_dtype = kBFloat16;
      expect_the_bits_of_one_rank(*session, options);
    }
  session->finish();
}

TEST(QuantizedMultirank, TwoRanks) {
  on_ranks(2);
}
TEST(QuantizedMultirank, ThreeRanks) {
  on_ranks(3);
}
TEST(QuantizedMultirank, FourRanks) {
  on_ranks(4);
}
TEST(QuantizedMultirank, FiveRanks) {
  on_ranks(5);
}

}  // namespace
}  // namespace wmtp::parallel
