// Products of cublasLt whose algorithm the caller chooses. Torch-free.
#pragma once
#include <cstdint>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

// out = alpha left right + beta out, summed in fp32. Matrices lie row by row; of a turned one the
// transpose does. REQUIRES operands of two bytes, addresses and strides in multiples of 16 bytes.
struct CudaProduct {
  Element element, out_element;
  const void *left, *right;
  void* out;
  bool left_turned, right_turned;
  std::int64_t rows, columns, contracted;
  std::int64_t left_stride, right_stride, out_stride;
  float alpha, beta;
};

}  // namespace wmtp::kernels
