#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "support/expect_error.h"
#include "wmtp/tensor/copy_to_device.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp {
namespace {

TEST(DType, NamesGoThereAndBack) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16, kInt32, kInt64})
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype) << name_of(dtype);
  EXPECT_EQ(dtype_from_name("bfloat16"), kBFloat16);
  EXPECT_EQ(dtype_from_name("float16"), kFloat16);
  EXPECT_WMTP_ERROR(dtype_from_name("fp12"), ErrorKind::config, "fp12");
}

TEST(DType, ElementsHaveTheirSizes) {
  EXPECT_EQ(element_bytes(kFloat64), 8u);
  EXPECT_EQ(element_bytes(kFloat32), 4u);
  EXPECT_EQ(element_bytes(kBFloat16), 2u);
}

TEST(CopyToDevice, KeepsValuesAndTypes) {
  const std::vector<std::int32_t> numbers{3, -1, 7};
  const Tensor copied =
      copy_to_device(std::span<const std::int32_t>(numbers), c10::Device(c10::kCPU));
  EXPECT_TRUE(copied.equal(at::tensor({3, -1, 7}, at::kInt)));
  const std::vector<float> none;
  const Tensor empty = copy_to_device(std::span<const float>(none), c10::Device(c10::kCPU));
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_EQ(empty.scalar_type(), kFloat32);
}

TEST(HostMemory, ThePeakHoldsWhatWasTouched) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = peak_resident_bytes();
  const Tensor touched = at::empty({kBytes}, at::kByte).fill_(1);
  EXPECT_GE(peak_resident_bytes(), std::max(before, kBytes));
  EXPECT_GT(available_host_bytes(), 0);
}

}  // namespace
}  // namespace wmtp
