// Which of the vectorised CPU bodies (cpu/simd) run: those of the widest instruction set that this
// processor has, unless they are limited.
#pragma once
#include <string_view>

namespace wmtp::kernels {

enum class SimdLevel { baseline, avx2, avx512 };  // narrowest first

std::string_view simd_level_name(SimdLevel level);
SimdLevel simd_level_from_name(std::string_view name);  // else Error config
SimdLevel widest_simd_level();                          // of this processor
SimdLevel simd_level();                                 // in use

// The bodies of `level` from now on, so that one processor can be tested as if it were a lesser
// one; a level it does not have: Error config. THREADS: to be called while no kernel runs.
void limit_simd(SimdLevel level);

}  // namespace wmtp::kernels
