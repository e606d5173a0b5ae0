#include "wmtp/kernels/cpu/simd/table.h"

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

const SimdKernels& simd_kernels() {
  static const SimdKernels& widest = simd_kernels(num_simd_kernels() - 1);
  return widest;
}

}  // namespace wmtp::kernels::cpu
