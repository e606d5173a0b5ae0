// R rows and C columns of the output, K contracted.
#include "wmtp/kernels/gpu/products.h"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "wmtp/core/error.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/moment.h"

namespace wmtp::kernels::gpu {
namespace {

constexpr int kRepeats = 4;              // of a product that is timed
constexpr double kWorthChanging = 0.98;  // of the time of the library's own, or a higher rank's
constexpr std::int64_t kProductAlignment = 16;  // bytes

struct Products {
  bool measures = false;
  std::map<std::string, std::optional<ProductAlgorithm>> known;
};

// Part of the process's CUDA context.
Products& products() {
  static Products all;
  return all;
}

// How far apart the rows of what lies there are; absent for a matrix that is neither in rows nor
// turned. A side of one element has any stride, and none is that short here.
struct Lying {
  bool turned = false;
  std::int64_t stride = 0;
};
std::optional<Lying> lying(const Tensor& matrix) {
  if (matrix.stride(1) == 1) return Lying{false, matrix.stride(0)};
  if (matrix.stride(0) == 1) return Lying{true, matrix.stride(1)};
  return std::nullopt;
}

bool aligned(const Tensor& matrix, std::int64_t stride) {
  const auto size = static_cast<std::int64_t>(matrix.element_size());
  return reinterpret_cast<std::uintptr_t>(matrix.const_data_ptr()) % kProductAlignment == 0 &&
         stride * size % kProductAlignment == 0;
}

bool fits(std::int64_t size) {
  return size > 0 && size % kMeasuredSizes == 0;
}

std::optional<CudaProduct> described(const Tensor& left, const Tensor& right, const Tensor& out) {
  const DType dtype = left.scalar_type();
  if (dtype != kBFloat16 && dtype != kFloat16) return std::nullopt;
  if (right.scalar_type() != dtype || out.stride(1) != 1) return std::nullopt;
  if (!fits(out.size(0)) || !fits(out.size(1)) || !fits(left.size(1))) return std::nullopt;
  const std::optional<Lying> a = lying(left), b = lying(right);
  if (!a || !b || !aligned(left, a->stride) || !aligned(right, b->stride) ||
      !aligned(out, out.stride(0)))
    return std::nullopt;
  CudaProduct product{};
  product.element = element_of("product", left);
  product.out_element = element_of("product", out);
  product.left = data_of(left), product.right = data_of(right), product.out = data_of(out);
  product.left_turned = a->turned, product.right_turned = b->turned;
  product.rows = out.size(0), product.columns = out.size(1), product.contracted = left.size(1);
  product.left_stride = a->stride, product.right_stride = b->stride;
  product.out_stride = out.stride(0);
  return product;
}

std::string_view name_of(Element element) {
  return element == Element::fp32 ? "fp32" : element == Element::bf16 ? "bf16" : "fp16";
}

// Neither alpha nor beta: an algorithm serves all of them.
std::string words_of(const CudaProduct& a) {
  return fmt::format("{} to {}, {} x {} x {}, {}{}, rows {} {} {}", name_of(a.element),
                     name_of(a.out_element), a.rows, a.contracted, a.columns,
                     a.left_turned ? 't' : 'n', a.right_turned ? 't' : 'n', a.left_stride,
                     a.right_stride, a.out_stride);
}

// False where the library does not take the algorithm.
bool launch(const CudaProduct& a, const ProductAlgorithm& algorithm) {
  const int code = gpu_kernels().product(a, algorithm, gpu_stream());
  if (code == kNotSupported) return false;
  check_launch("product", code);
  return true;
}

// Of kRepeats runs, after a first one that makes what is made once.
double seconds_of(const std::function<void()>& run, c10::Device device) {
  run();
  const CudaServices& services = cuda_tables().services;
  services.synchronize();  // nothing else runs beside it
  const Moment begun = Moment::now(device);
  for (int i = 0; i < kRepeats; ++i) run();
  const Moment ended = Moment::now(device);
  services.synchronize();
  return begun.until(ended).value_or(std::numeric_limits<double>::infinity());
}

// The fastest of the library's best where one is faster than the library's own choice by more than
// noise; else none.
std::optional<ProductAlgorithm> measure(const CudaProduct& a, c10::Device device,
                                        const std::function<void()>& by_library) {
  std::vector<ProductAlgorithm> algorithms;
  check_launch("algorithms of a product", gpu_kernels().product_algorithms(a, &algorithms));
  std::optional<ProductAlgorithm> best;
  double best_s = seconds_of(by_library, device);
  for (const ProductAlgorithm& algorithm : algorithms) {
    if (!launch(a, algorithm)) continue;
    const double seconds = seconds_of([&] { launch(a, algorithm); }, device);
    if (seconds < kWorthChanging * best_s) best = algorithm, best_s = seconds;
  }
  return best;
}

// Nothing can be timed while a capture is under way.
bool can_measure(c10::Device device) {
  return products().known.size() < kMostMeasured && Moment::now(device);
}

}  // namespace

std::string measuring_library() {
  return gpu_kernels().product_library();
}

void measure_products(const std::vector<MeasuredProduct>& known) {
  WMTP_CHECK(gpu_kernels().product, "measured products: the plugin has none");
  products() = {.measures = true, .known = {}};
  for (const MeasuredProduct& one : known) products().known[one.product] = one.algorithm;
}

void leave_products_to_library() {
  products() = {};
}

std::size_t num_measured_products() {
  return products().known.size();
}

std::vector<MeasuredProduct> measured_products() {
  std::vector<MeasuredProduct> all;
  for (const auto& [words, algorithm] : products().known) all.push_back({words, algorithm});
  return all;
}

bool measured_product(const Tensor& left_RK, const Tensor& right_KC, const Tensor& out_RC,
                      double alpha, double beta, const std::function<void()>& by_library) {
  if (!products().measures || !out_RC.is_cuda()) return false;
  std::optional<CudaProduct> product = described(left_RK, right_KC, out_RC);
  if (!product) return false;
  product->alpha = static_cast<float>(alpha), product->beta = static_cast<float>(beta);
  auto& known = products().known;
  const std::string words = words_of(*product);
  auto found = known.find(words);
  if (found == known.end()) {
    if (beta != 0 || !can_measure(out_RC.device())) return false;
    found = known.emplace(words, measure(*product, out_RC.device(), by_library)).first;
  }
  return found->second && launch(*product, *found->second);
}

}  // namespace wmtp::kernels::gpu
