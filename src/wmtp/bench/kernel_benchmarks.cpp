#include "wmtp/bench/kernel_benchmarks.h"

#include "wmtp/bench/kernel_inputs.h"

namespace wmtp::bench {

std::vector<MakeBenchmark> kernel_benchmarks(const KernelShape& shape, DType dtype,
                                             c10::Device device) {
  std::vector<MakeBenchmark> all = row_benchmarks(shape, dtype, device);
  for (const auto& part :
       {loss_benchmarks(shape, dtype, device), product_benchmarks(shape, dtype, device)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace wmtp::bench
