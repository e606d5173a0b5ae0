// CUDA's words for functions and variables. __shared__ and __launch_bounds__ are none of them:
// translate.py rewrites those.
#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
