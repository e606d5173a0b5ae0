// What the ops demand of their arguments. A broken demand is a bug of the caller, so every failure
// is ErrorKind::internal and names the op, the argument and what was found.
#pragma once
#include <cstdint>
#include <string_view>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

class ArgChecks {
 public:
  // All tensors of a call live where `lead` does.
  ArgChecks(std::string_view op, const Tensor& lead);

  // 2-D, features contiguous, any row stride.
  const ArgChecks& matrix(std::string_view name, const Tensor& tensor, std::int64_t rows,
                          std::int64_t columns, DType dtype) const;
  // [n, heads, features], features contiguous.
  const ArgChecks& heads(std::string_view name, const Tensor& tensor, c10::IntArrayRef sizes,
                         DType dtype) const;
  const ArgChecks& vector(std::string_view name, const Tensor& tensor, std::int64_t size,
                          DType dtype) const;
  const ArgChecks& scalar(std::string_view name, const Tensor& tensor, DType dtype) const;
  // A gradient sum: contiguous, any of fp32, bf16, fp16, fp64.
  const ArgChecks& gradient(std::string_view name, const Tensor& tensor,
                            c10::IntArrayRef sizes) const;

 private:
  void place(std::string_view name, const Tensor& tensor, c10::IntArrayRef sizes) const;
  void dtype(std::string_view name, const Tensor& tensor, DType wanted) const;
  [[noreturn]] void fail(std::string_view name, std::string_view fact) const;

  std::string_view op_;
  c10::Device device_;
};

// Statistics, losses and per-row numbers: fp64 beside fp64 tensors, else fp32.
DType statistics_dtype(DType compute);

// On the CPU compute is fp32 (fp64 in tests): anything else is a config error that says so.
bool is_double_on_cpu(std::string_view op, const Tensor& tensor);

}  // namespace wmtp::kernels
