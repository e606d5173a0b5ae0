// Products by algorithms that were measured (kernels/gpu/products.h): as those of the library, and
// the same again from what a run wrote down. N, I, O multiples of 64.
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "wmtp/kernels/cuda/products/measured_product.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/gpu/products.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::kernels {
namespace {

using gpu::MeasuredProduct;

const c10::Device kGpu(c10::kCUDA, 0);

class MeasuredProductsOnGpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!cuda_loaded()) GTEST_SKIP() << "needs a GPU: WMTP_TEST_CUDA=1";
  }
  void TearDown() override {
    if (cuda_loaded()) gpu::leave_products_to_library();
  }
};

Tensor drawn(std::int64_t rows, std::int64_t columns, DType dtype = kBFloat16) {
  return at::randn({rows, columns}, at::TensorOptions().dtype(kFloat32)).to(dtype).to(kGpu);
}
Tensor room(std::int64_t rows, std::int64_t columns, DType dtype = kBFloat16) {
  return at::zeros({rows, columns}, at::TensorOptions().dtype(dtype).device(kGpu));
}

// K products of numbers of size 1 are summed in fp32, in any order: each of K additions errs by
// 2^-24 of a sum of up to K. Then one rounding to the output's dtype.
void expect_near(const Tensor& found, const Tensor& exact, std::int64_t contracted) {
  const Tensor a = found.cpu().to(kFloat64);
  const double rounding = found.scalar_type() == kFloat32   ? 0
                          : found.scalar_type() == kFloat16 ? 0x1p-11
                                                            : 0x1p-8;
  const double of_sums = static_cast<double>(contracted * contracted) * 0x1p-24;
  EXPECT_LE(a.sub(exact).abs().sub(exact.abs(), rounding).max().item<double>(), of_sums);
}

Tensor exact(const Tensor& left, const Tensor& right) {
  return left.cpu().to(kFloat64).mm(right.cpu().to(kFloat64));
}

TEST_P(MeasuredProductsOnGpu, AreThoseOfALinearLayer) {
  const DType dtype = GetParam();
  const Tensor x = drawn(128, 320, dtype).narrow(1, 64, 192), weight = drawn(64, 192, dtype);
  const Tensor dy = drawn(128, 64, dtype), y = room(128, 64, dtype), dx = room(128, 192, dtype);
  const Tensor dweight = room(64, 192, kFloat32);
  gpu::measure_products({});
  linear(x, weight, y);
  linear_backward_input(dy, weight, dx);
  linear_backward_weight(dy, x, dweight, {.adds = false});
  EXPECT_EQ(gpu::num_measured_products(), 3);
  expect_near(y, exact(x, weight.t()), 192);
  expect_near(dx, exact(dy, weight), 64);
  const Tensor once = exact(dy.t(), x);
  expect_near(dweight, once, 128);
  linear_backward_weight(dy, x, dweight, {.adds = true, .alpha = 0.5});
  EXPECT_EQ(gpu::num_measured_products(), 3);  // what was found serves sums too
  expect_near(dweight, once.mul(1.5), 256);
}
INSTANTIATE_TEST_SUITE_P(All, MeasuredProductsOnGpu, ::testing::Values(kBFloat16, kFloat16));

// Whichever is the fastest: all that the library lists for a product of a weight's gradient.
TEST_P(MeasuredProductsOnGpu, EveryAlgorithmGivesTheProduct) {
  const DType dtype = GetParam();
  const Tensor dy = drawn(192, 64, dtype), x = drawn(192, 128, dtype);
  const Tensor first = exact(dy.t(), x);
  CudaProduct product{};
  product.element = element_of("product", x), product.out_element = Element::fp32;
  product.left = data_of(dy), product.right = data_of(x);
  product.left_turned = true;
  product.rows = 64, product.columns = 128, product.contracted = 192;
  product.left_stride = 64, product.right_stride = 128, product.out_stride = 128;
  product.alpha = 1;
  std::vector<ProductAlgorithm> algorithms;
  product.out = data_of(x);  // any address on the boundary
  check_launch("algorithms", gpu_kernels().product_algorithms(product, &algorithms));
  EXPECT_GE(algorithms.size(), 2);
  for (const ProductAlgorithm& algorithm : algorithms) {
    const Tensor out = room(64, 128, kFloat32);
    product.out = data_of(out), product.beta = 0;
    const int code = gpu_kernels().product(product, algorithm, gpu_stream());
    if (code == kNotSupported) continue;
    check_launch("product", code);
    expect_near(out, first, 192);
    product.beta = 1;
    check_launch("product", gpu_kernels().product(product, algorithm, gpu_stream()));
    expect_near(out, first.mul(2), 384);
  }
}

using MeasuredProductsOfARunOnGpu = MeasuredProductsOnGpu;

TEST_P(MeasuredProductsOfARunOnGpu, AreTheSameAgain) {
  const Tensor x = drawn(64, 1088, GetParam()), weight = drawn(128, 1088, GetParam());
  const Tensor first = room(64, 128, GetParam()), again = room(64, 128, GetParam());
  gpu::measure_products({});
  linear(x, weight, first);
  const std::vector<MeasuredProduct> kept = gpu::measured_products();
  ASSERT_EQ(kept.size(), 1);
  gpu::measure_products(kept);
  EXPECT_EQ(gpu::num_measured_products(), 1);
  linear(x, weight, again);
  EXPECT_EQ(gpu::num_measured_products(), 1);
  EXPECT_EQ(gpu::measured_products()[0].algorithm, kept[0].algorithm);
  EXPECT_TRUE(first.cpu().equal(again.cpu()));
}

TEST_P(MeasuredProductsOfARunOnGpu, LeaveToTheLibraryWhatTheyAreNotFor) {
  const DType dtype = GetParam();
  gpu::measure_products({});
  const Tensor weight = drawn(64, 128, dtype);
  const auto leaves = [&](const Tensor& x, const Tensor& w, const Tensor& y, double beta) {
    return !gpu::measured_product(x, w.t(), y, 1, beta, [] {});
  };
  EXPECT_TRUE(leaves(drawn(72, 128, dtype), weight, room(72, 64, dtype), 0));  // 72 rows
  EXPECT_TRUE(leaves(drawn(0, 128, dtype), weight, room(0, 64, dtype), 0));
  EXPECT_TRUE(
      leaves(drawn(64, 128, kFloat32), drawn(64, 128, kFloat32), room(64, 64, kFloat32), 0));
  const Tensor odd = drawn(64, 136, dtype).narrow(1, 4, 128);  // 8 bytes off the boundary
  EXPECT_TRUE(leaves(odd, weight, room(64, 64, dtype), 0));
  EXPECT_TRUE(
      leaves(drawn(64, 128, dtype), weight, room(64, 64, dtype), 1));  // adds, not yet known
  EXPECT_EQ(gpu::num_measured_products(), 0);
  const Tensor on_host = at::zeros({64, 64}, at::TensorOptions().dtype(dtype));
  EXPECT_FALSE(gpu::measured_product(on_host, on_host, on_host, 1, 0, [] {}));
  gpu::leave_products_to_library();
  EXPECT_TRUE(leaves(drawn(64, 128, dtype), weight, room(64, 64, dtype), 0));
}
INSTANTIATE_TEST_SUITE_P(All, MeasuredProductsOfARunOnGpu, ::testing::Values(kBFloat16));

}  // namespace
}  // namespace wmtp::kernels
