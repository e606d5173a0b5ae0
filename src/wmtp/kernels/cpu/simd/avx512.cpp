#if defined(__x86_64__)
#define WMTP_ISA avx512
#include "wmtp/kernels/cpu/simd/bodies.h"
#endif
