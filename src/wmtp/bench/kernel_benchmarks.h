// What `wmtp bench kernels` measures: every op of kernels/ beside the same work in ATen's own
// operators.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::bench {

// The shape of one model's step, as far as the kernels see it.
struct KernelShape {
  std::int64_t tokens, hidden, ffn, vocabulary, document;
  int num_heads, num_kv_heads, head_dim;
  std::int64_t parameters;  // of the optimizer's flat range
};

struct KernelBenchmark {
  std::string name, shape;
  double work = 0;  // bytes that must move, or floating-point operations
  bool is_flops = false;
  std::function<void()> ours;
  std::function<void()> aten;  // empty: no equivalent, or `ours` is ATen's own
};

// Made one after another, so that only one op's tensors exist at a time.
using MakeBenchmark = std::function<KernelBenchmark()>;
std::vector<MakeBenchmark> kernel_benchmarks(const KernelShape& shape, DType dtype,
                                             c10::Device device);

}  // namespace wmtp::bench
