// A model may have two steps, as `bench step --beside-uniform` does: each takes the norm of its own
// gradients, whichever was made last.
#include <gtest/gtest.h>

#include "support/runs/law_run.h"
#include "wmtp/comm/communicator.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::test {
namespace {

TEST(TwoSteps, EachTakesItsOwnNorm) {
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  const parallel::Groups groups{gather.get(), reduce.get()};
  const model::ModelConfig config = model::preset("micro");
  LawRun alone(config, {}, groups), run(config, {}, groups);
  training::TrainableModel& model = run.model();
  training::Baseline uniform({model.transformer(), model.transformer()});
  const training::Step second(model.runtime(), uniform, model.optimizer(), *reduce, {});
  const double norm = alone.step().grad_norm;
  EXPECT_GT(norm, 0);
  EXPECT_EQ(run.step().grad_norm, norm);
}

}  // namespace
}  // namespace wmtp::test
