#define WMTP_ISA baseline
#include "wmtp/kernels/cpu/simd/bodies.h"
