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
                   [&] { kernels::add_squared_norm(numbers_, sums_.select(0, unit)); });
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
  pending.run(UnitId(0), [] {});
  EXPECT_EQ(num_done, 1);
}

}  // namespace
}  // namespace wmtp::parallel
