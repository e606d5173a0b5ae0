// Random inputs of the kernels' benchmarks, for one shape, dtype and device.
#pragma once
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "wmtp/bench/kernel_benchmarks.h"

namespace wmtp::bench {

class KernelInputs {
 public:
  KernelInputs(const KernelShape& shape, DType dtype, c10::Device device)
      : shape_(shape),
        options_(at::TensorOptions().dtype(dtype).device(device)),
        bytes_(static_cast<double>(element_bytes(dtype))) {}

 protected:
  Tensor random(std::vector<std::int64_t> sizes) const { return at::randn(sizes, options_); }
  Tensor rows(std::int64_t columns) const { return random({shape_.tokens, columns}); }
  Tensor headed(std::int64_t heads) const {
    return random({shape_.tokens, heads, shape_.head_dim});
  }
  at::TensorOptions statistics() const { return options_.dtype(kFloat32); }
  Tensor wide(std::vector<std::int64_t> sizes) const { return at::randn(sizes, statistics()); }

  KernelBenchmark named(std::string name, std::int64_t columns, double work) const {
    KernelBenchmark result;
    result.name = std::move(name);
    result.shape = fmt::format("{} x {}", shape_.tokens, columns);
    result.work = work;
    return result;
  }

  KernelShape shape_;
  at::TensorOptions options_;
  double bytes_;  // of an element
};

// The benchmarks by what they are: ops on rows, losses and the optimizer, products and attention.
std::vector<MakeBenchmark> row_benchmarks(const KernelShape& shape, DType dtype,
                                          c10::Device device);
std::vector<MakeBenchmark> loss_benchmarks(const KernelShape& shape, DType dtype,
                                           c10::Device device);
std::vector<MakeBenchmark> product_benchmarks(const KernelShape& shape, DType dtype,
                                              c10::Device device);

}  // namespace wmtp::bench
