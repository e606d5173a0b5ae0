#include "wmtp/parallel/pending_updates.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "wmtp/kernels/grad_norm.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::parallel {
namespace {

// Four units, the update of each of which is a kernel that writes 64 to its own number.
class FourUpdates {
 public:
  explicit FourUpdates(c10::Device device)
      : numbers_(at::ones({64}, at::TensorOptions().device(device))),
        sums_(at::zeros({4}, at::TensorOptions().dtype(kFloat64).device(device))),
        pending_(with(device), 4, [this](UnitId unit) { done_ += std::to_string(unit.value()); }) {
    for (int unit = 0; unit < 4; ++unit)
      pending_.run(UnitId(unit),
                   [&](int) { kernels::add_squared_norm(numbers_, sums_.select(0, unit)); });
  }

  PendingUpdates& pending() { return pending_; }
  const std::string& done() const { return done_; }
  double sum(int unit) const { return sums_.select(0, unit).item<double>(); }

 private:
  static ParallelOptions with(c10::Device device) {
    ParallelOptions options;
    options.device = device;
    return options;
  }

  Tensor numbers_, sums_;
  std::string done_;
  PendingUpdates pending_;
};

TEST(PendingUpdates, AreDoneAtOnceOnACpu) {
  FourUpdates updates(c10::kCPU);
  EXPECT_EQ(updates.done(), "0123");
  EXPECT_EQ(updates.sum(3), 64);
  updates.pending().wait_for_all();
  EXPECT_EQ(updates.done(), "0123");
}

TEST(PendingUpdatesOnGpu, AreWaitedForOneByOneAndFromTheMiddleOnTogether) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  FourUpdates updates(c10::Device(c10::kCUDA, 0));
  EXPECT_EQ(updates.done(), "");
  updates.pending().wait_for(UnitId(1));
  EXPECT_EQ(updates.sum(1), 64);
  updates.pending().wait_for(UnitId(1));
  EXPECT_EQ(updates.done(), "1");
  updates.pending().wait_for(UnitId(0));
  EXPECT_EQ(updates.sum(0), 64);
  EXPECT_EQ(updates.done(), "10");
  updates.pending().wait_for(UnitId(3));
  EXPECT_EQ(updates.done(), "1032");
  for (int unit = 0; unit < 4; ++unit) EXPECT_EQ(updates.sum(unit), 64);
}

TEST(PendingUpdatesOnGpu, AreOverWithOffload) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  ParallelOptions options;
  options.device = c10::Device(c10::kCUDA, 0);
  options.cpu_offload = true;
  int num_done = 0;
  PendingUpdates pending(options, 1, [&](UnitId) { ++num_done; });
  pending.run(UnitId(0), [](int) {});
  EXPECT_EQ(num_done, 1);
}

TEST(PendingUpdatesOnGpu, TheFirstTwoHaveTheGpuAndTheOthersAShareOfIt) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  ParallelOptions options;
  options.device = c10::Device(c10::kCUDA, 0);
  PendingUpdates pending(options, 5, [](UnitId) {});
  std::string taken;
  const auto run_all = [&] {
    for (int unit = 0; unit < 5; ++unit)
      pending.run(UnitId(unit), [&](int count) { taken += std::to_string(count) + " "; });
  };
  pending.begin({.multiprocessors = 7});
  run_all();
  EXPECT_EQ(taken, "0 0 7 7 7 ");
  pending.wait_for_all();
  taken.clear();
  pending.begin({});
  run_all();
  EXPECT_EQ(taken, "0 0 0 0 0 ");
  pending.wait_for_all();
}

TEST(UpdateShare, UpdatesRunBesideAPassThatIsLongerThanThey) {
  const UpdateWork seven{.trained = 6'700'000'000, .weights = 6'700'000'000, .tokens = 8192};
  const UpdateShare share = update_share(seven);
  EXPECT_GT(share.multiprocessors, 0);
  EXPECT_GT(share.of_units, 0.3);
  EXPECT_LT(share.of_units, 0.7);
  UpdateWork other = seven;
  other.tokens = 1024;  // the pass would be over long before the updates
  EXPECT_EQ(update_share(other).multiprocessors, 0);
  other = seven;
  other.trained /= 200;  // adapters: nothing to hide
  EXPECT_EQ(update_share(other).multiprocessors, 0);
  EXPECT_EQ(update_share({}).multiprocessors, 0);
}

}  // namespace
}  // namespace wmtp::parallel
