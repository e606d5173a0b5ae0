#if defined(__x86_64__)
#define WMTP_ISA avx512
#include "wmtp/kernels/cpu/simd/exact_bodies.h"
#endif
