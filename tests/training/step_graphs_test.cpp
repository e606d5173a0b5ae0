// Steps that are replayed (training/step_graphs.h), and the shapes that are rounded up for them.
#include <gtest/gtest.h>

#include <algorithm>

#include "training/stage_cases.h"
#include "wmtp/comm/groups.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::test {
namespace {

using models::BatchShape;
using training::GraphHits;
using training::StepGraphs;

const c10::Device kGpu(c10::kCUDA, 0);

// Empty documents, and rows that have no target: both only fill up.
TEST(RoundedShapes, ChangeNothingButTheOrderOfSums) {
  for (const int row_stride : {0, 24}) {
    SCOPED_TRACE(row_stride);
    StageCase one{.name = "baseline", .setup = {}};
    one.setup.row_stride = row_stride;
    const StageSteps steps = steps_of(one, {8, 5, 1, 7});
    const StageTrace exact = run_alone(one.setup, steps);
    one.setup.shape = BatchShape::rounded;
    expect_same(run_alone(one.setup, steps), exact);
  }
}

class StepGraphsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
    gather_ = comm::make_single("gather", kGpu);
    reduce_ = comm::make_single("reduce", kGpu);
  }
  std::unique_ptr<StageRun> make_run(bool cuda_graphs, StageSetup setup = {}) {
    setup.device = kGpu;
    setup.shape = BatchShape::rounded;
    setup.cuda_graphs = cuda_graphs;
    setup.bf16 = true;
    return std::make_unique<StageRun>(setup, parallel::Groups{gather_.get(), reduce_.get()});
  }

  std::unique_ptr<comm::Communicator> gather_, reduce_;
};

// Other tokens in other places, of the same number; another document without a target.
std::vector<StageSample> changed(std::vector<StageSample> samples, std::int32_t by) {
  for (StageSample& sample : samples)
    for (std::int32_t& id : sample[0].ids) id = (id + by) % 64;
  StageRow& silent = samples[static_cast<std::size_t>(by % std::ssize(samples))][0];
  silent.prompt = static_cast<std::int32_t>(silent.ids.size());
  std::ranges::rotate(samples, samples.begin() + by % std::ssize(samples));
  return samples;
}

void expect_equal(StageRun& found, StageRun& expected) {
  for (std::size_t unit = 0; unit < found.num_units(); ++unit) {
    EXPECT_TRUE(found.grad(unit).values.cpu().equal(expected.grad(unit).values.cpu())) << unit;
    EXPECT_TRUE(found.master(unit).values.cpu().equal(expected.master(unit).values.cpu())) << unit;
  }
}

TEST_F(StepGraphsOnGpu, HaveTheBitsOfPlainSteps) {
  for (const int batch_size : {8, 3}) {  // one micro-batch, three
    SCOPED_TRACE(batch_size);
    const StageSetup setup{.batch_size = batch_size};
    const auto graphs = make_run(true, setup), plain = make_run(false, setup);
    const std::vector<StageSample> samples = random_samples(8, 5);
    for (std::int32_t step = 0; step < 6; ++step) {
      const auto shifted = batch_size == 8 ? changed(samples, step) : samples;
      const training::StepResult found = graphs->step(shifted), expected = plain->step(shifted);
      EXPECT_EQ(found.loss, expected.loss) << step;
      EXPECT_EQ(found.grad_norm, expected.grad_norm) << step;
      expect_equal(*graphs, *plain);
    }
    const GraphHits& hits = graphs->model().step().graphs()->hits();
    EXPECT_EQ(hits.hits, 4);
    EXPECT_EQ(hits.num_recorded, 1);
  }
}

// A mask follows from the step and the sample: the number of neither is a graph's own.
TEST_F(StepGraphsOnGpu, DrawTheMasksOfPlainSteps) {
  StageSetup setup;
  setup.lora.emplace();
  setup.lora->targets = {"q_proj", "o_proj", "up_proj", "down_proj"};
  setup.lora->dropout = 0.25;
  for (const auto recompute : {model::Recompute::none, model::Recompute::block}) {
    SCOPED_TRACE(static_cast<int>(recompute));
    setup.recompute = recompute;
    const auto graphs = make_run(true, setup), plain = make_run(false, setup);
    const std::vector<StageSample> samples = random_samples(8, 5);
    for (std::int32_t step = 0; step < 6; ++step) {
      const auto shifted = changed(samples, step);
      EXPECT_EQ(graphs->step(shifted).loss, plain->step(shifted).loss) << step;
      expect_equal(*graphs, *plain);
    }
    EXPECT_EQ(graphs->model().step().graphs()->hits().hits, 4);
  }
}

// A step's numbers are read when the next one has been replayed into the same place.
TEST_F(StepGraphsOnGpu, LeaveTheNumbersOfTheStepBefore) {
  const auto graphs = make_run(true), plain = make_run(false);
  std::vector<training::PendingResult> pending;
  std::vector<training::StepResult> expected;
  for (std::int32_t step = 0; step < 5; ++step) {
    const auto samples = changed(random_samples(8, 5), step);
    pending.push_back(graphs->model().step().run(graphs->deal(samples)));
    expected.push_back(plain->model().step().run(plain->deal(samples)).read());
  }
  for (std::size_t step = 0; step < pending.size(); ++step)
    EXPECT_EQ(pending[step].read().loss, expected[step].loss) << step;
}

// What is copied into a graph's input is on the device already, and nobody waits for the replay.
TEST_F(StepGraphsOnGpu, AreReplayedWithoutAWaitOfTheHost) {
  const auto run = make_run(true);
  const auto samples = random_samples(8, 5);
  for (int step = 0; step < 3; ++step) run->step(samples);
  const training::StepInput input = run->deal(samples);
  const auto forbid_host_waits = cuda_tables().services.forbid_host_waits;
  forbid_host_waits(true);
  EXPECT_NO_THROW(run->model().step().run(input));
  forbid_host_waits(false);
  EXPECT_EQ(run->model().step().graphs()->hits().hits, 2);
}

// One shape more than there are graphs: the first one's is dropped for the last one's.
TEST_F(StepGraphsOnGpu, GiveWayToThoseThatWereNeededLater) {
  const auto run = make_run(true, {.batch_size = 20});
  const auto step = [&](std::size_t num_samples) {
    std::vector<StageSample> samples = random_samples(StepGraphs::kMostGraphs + 1, 5);
    samples.resize(num_samples);
    run->step(samples);
  };
  const GraphHits& hits = run->model().step().graphs()->hits();
  for (int round = 0; round < 2; ++round)
    for (std::size_t shape = 1; shape <= StepGraphs::kMostGraphs + 1; ++shape) step(shape);
  EXPECT_EQ(hits.num_shapes, StepGraphs::kMostGraphs + 1);
  EXPECT_EQ(hits.num_recorded, StepGraphs::kMostGraphs + 1);
  EXPECT_EQ(hits.hits, 0);
  step(2);
  EXPECT_EQ(hits.hits, 1);
  step(1);  // a new shape once more
  EXPECT_EQ(hits.num_recorded, StepGraphs::kMostGraphs + 1);
  step(1);  // in the place of the third
  EXPECT_EQ(hits.num_recorded, StepGraphs::kMostGraphs + 2);
  step(2);
  step(1);
  EXPECT_EQ(hits.hits, 3);
  step(3);
  step(3);
  EXPECT_EQ(hits.hits, 3);
  EXPECT_EQ(hits.num_recorded, StepGraphs::kMostGraphs + 3);
}

}  // namespace
}  // namespace wmtp::test
