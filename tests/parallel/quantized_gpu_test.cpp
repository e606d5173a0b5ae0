// Units with matrices in NF4 on a GPU: the weights that a CPU has, kept on the device or in host
// memory.
#include <gtest/gtest.h>

#include "parallel/quantized_units.h"
#include "wmtp/comm/groups.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::parallel {
namespace {

struct HeldUnits {
  std::unique_ptr<comm::Communicator> group;
  Runtime runtime;

  HeldUnits(const ParallelOptions& options)
      : group(comm::make_single("all", options.device)),
        runtime(test::quantized_units(), options, {group.get(), group.get()}) {
    runtime.fill(test::read_numbers);
  }
  Tensor frozen(int unit) {
    const Tensor weights = runtime.acquire(UnitId(unit), /*backward=*/false).frozen.cpu();
    runtime.release(UnitId(unit));
    return weights;
  }
  std::vector<Tensor> written() {
    std::vector<Tensor> wholes;
    runtime.gather_full([&wholes](const layout::ParamSpec&, const Tensor& whole) {
      wholes.push_back(whole.clone());
    });
    return wholes;
  }
};

TEST(QuantizedUnitsOnGpu, AreThoseOfTheCpu) {
  if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  for (const DType computed : {kFloat32, kBFloat16, kFloat16})
    for (const bool offload : {false, true}) {
      ParallelOptions options;
      options.param_dtype = computed;
      options.frozen_dtype = kBFloat16;
      HeldUnits cpu(options);
      options.device = c10::Device(c10::kCUDA, 0);
      options.cpu_offload = offload;
      HeldUnits gpu(options);
      EXPECT_EQ(gpu.runtime.state_bytes(), cpu.runtime.state_bytes());
      for (const Tensor& kept : gpu.runtime.states()[1].quantized->tensors()) {
        EXPECT_EQ(kept.is_cuda(), !offload);
        EXPECT_EQ(kept.is_pinned(), offload);
      }
      for (int unit = 0; unit < 3; ++unit)
        EXPECT_TRUE(gpu.frozen(unit).equal(cpu.frozen(unit))) << wmtp::name_of(computed) << unit;
      const std::vector<Tensor> ours = gpu.written(), wanted = cpu.written();
      ASSERT_EQ(ours.size(), wanted.size());
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_TRUE(ours[i].equal(wanted[i])) << wmtp::name_of(computed) << i;
    }
}

}  // namespace
}  // namespace wmtp::parallel
