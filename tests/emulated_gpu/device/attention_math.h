// Attention inside of one document as plain products, in fp32 on the host.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::emulated {

// [h, l, e] of one document; key/value heads as many as query heads.
struct Heads {
  Tensor q, k, v;
};
struct Forward {
  Tensor out, lse;
};
Forward attend(const Heads& heads, double scale);
// The real kernels add the parts of dq as they come, unless they are asked for an order: so does
// this, in one that is drawn.
Heads attend_backward(const Heads& heads, const Forward& forward, const Tensor& dout, double scale,
                      bool in_order);

// [n, heads, e] -> [heads of q, l, e] in fp32.
Tensor document(const Tensor& tokens_NHE, std::int64_t first, std::int64_t last,
                std::int64_t num_heads);
// The transpose: query heads that share a key/value head are added.
void write_document(const Tensor& to_NHE, std::int64_t first, const Tensor& heads_HLE);

}  // namespace wmtp::emulated
