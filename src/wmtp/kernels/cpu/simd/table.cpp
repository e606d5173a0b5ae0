#include "wmtp/kernels/cpu/simd/table.h"

#include <atomic>

namespace wmtp::kernels::cpu {

int num_simd_kernels() {
#if defined(__x86_64__)
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return v4 ? 3 : v3 ? 2 : 1;
#else
  return 1;
#endif
}

const SimdKernels& simd_kernels(int index) {
#if defined(__x86_64__)
  if (index == 2) return avx512::kKernels;
  if (index == 1) return avx2::kKernels;
#endif
  static_cast<void>(index);
  return baseline::kKernels;
}

namespace {

std::atomic<const SimdKernels*>& kernels_in_use() {
  static std::atomic<const SimdKernels*> in_use{&simd_kernels(num_simd_kernels() - 1)};
  return in_use;
}

}  // namespace

const SimdKernels& simd_kernels() {
  return *kernels_in_use().load(std::memory_order_relaxed);
}

void use_simd_kernels(int index) {
  kernels_in_use().store(&simd_kernels(index), std::memory_order_relaxed);
}

}  // namespace wmtp::kernels::cpu
