#define WMTP_ISA baseline
#include "wmtp/kernels/cpu/simd/exact_bodies.h"
