#if defined(__x86_64__)
#define WMTP_ISA avx2
#include "wmtp/kernels/cpu/simd/exact_bodies.h"
#endif
