#include "wmtp/kernels/embedding.h"

#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"

namespace wmtp::kernels {

void embedding(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND) {
  const Demands demands("embedding", weight_VD);
  const DType dtype = weight_VD.scalar_type();
  demands.vector("tokens", tokens_N, out_ND.size(0), kInt32)
      .matrix("weight", weight_VD, weight_VD.size(0), weight_VD.size(1), dtype)
      .matrix("out", out_ND, out_ND.size(0), weight_VD.size(1), dtype);
  if (is_double_on_cpu("embedding", weight_VD))
    return cpu::embedding<double>(tokens_N, weight_VD, out_ND);
  cpu::embedding<float>(tokens_N, weight_VD, out_ND);
}

void embedding_backward(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD) {
  const Demands demands("embedding_backward", dout_ND);
  const std::int64_t vocabulary = dweight_VD.size(0), features = dout_ND.size(1);
  demands.vector("tokens", tokens_N, dout_ND.size(0), kInt32)
      .matrix("dout", dout_ND, dout_ND.size(0), features, dout_ND.scalar_type())
      .gradient("dweight", dweight_VD, {vocabulary, features});
  if (is_double_on_cpu("embedding_backward", dout_ND))
    return cpu::embedding_backward<double>(tokens_N, dout_ND, dweight_VD);
  cpu::embedding_backward<float>(tokens_N, dout_ND, dweight_VD);
}

}  // namespace wmtp::kernels
