// float8.h on a GPU: the plugin's kernels, ATen's scaled products, cublasLt. The arguments were
// checked.
#pragma once
#include "wmtp/kernels/float8.h"

namespace wmtp::kernels::gpu {

Float8Amax float8_amax(const Tensor& x_RC, Float8Recipe recipe);
void raise_float8_amax(const Tensor& x_RC, const Tensor& amax);
// Writes the values that `forms` has room for, paddings included, and makes the inverses.
void quantise(const Float8Quantise& args, Float8Forms& forms);

void float8_turn(const Tensor& rows_RC, const Tensor& columns_CR);

// out = A B^T. `fast` lets the multiplying units add up in fewer bits.
void float8_product(const Float8Matrix& a, const Float8Matrix& b, const Tensor& out, bool fast);
// out = beta out + A B^T, summed in fp32.
void float8_product_sum(const Float8Matrix& a, const Float8Matrix& b, const Tensor& out, int beta);

}  // namespace wmtp::kernels::gpu
