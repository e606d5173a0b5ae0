#include "wmtp/kernels/embedding.h"

#include <ATen/ops/sort.h>

#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void forward_on_gpu(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND) {
  const CudaEmbedding args{element_of("embedding", weight_VD),
                           tokens_N.data_ptr<std::int32_t>(),
                           data_of(weight_VD),
                           data_of(out_ND),
                           tokens_N.size(0),
                           out_ND.size(1),
                           row_stride(weight_VD),
                           row_stride(out_ND)};
  check_launch("embedding", gpu_kernels().embedding(args, gpu_stream()));
}

void backward_on_gpu(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD) {
  // A stable sort keeps the rows of one token in token order: sums in a fixed order, no atomics.
  const auto [sorted_N, order_N] = at::sort(tokens_N, std::optional<bool>(true), 0, false);
  const CudaEmbeddingBackward args{element_of("embedding_backward", dout_ND),
                                   element_of("embedding_backward", dweight_VD),
                                   sorted_N.data_ptr<std::int32_t>(),
                                   order_N.data_ptr<std::int64_t>(),
                                   data_of(dout_ND),
                                   data_of(dweight_VD),
                                   tokens_N.size(0),
                                   dout_ND.size(1),
                                   row_stride(dout_ND)};
  check_launch("embedding_backward", gpu_kernels().embedding_backward(args, gpu_stream()));
}

}  // namespace

void embedding(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND) {
  const ProfiledOperator operation("wmtp::embedding");
  const ArgChecks demands("embedding", weight_VD);
  const DType dtype = weight_VD.scalar_type();
  demands.vector("tokens", tokens_N, out_ND.size(0), kInt32)
      .matrix("weight", weight_VD, weight_VD.size(0), weight_VD.size(1), dtype)
      .matrix("out", out_ND, out_ND.size(0), weight_VD.size(1), dtype);
  if (tokens_N.numel() == 0) return;
  if (weight_VD.is_cuda()) return forward_on_gpu(tokens_N, weight_VD, out_ND);
  if (is_double_on_cpu("embedding", weight_VD))
    return cpu::embedding<double>(tokens_N, weight_VD, out_ND);
  cpu::embedding<float>(tokens_N, weight_VD, out_ND);
}

void embedding_backward(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD) {
  const ProfiledOperator operation("wmtp::embedding_backward");
  const ArgChecks demands("embedding_backward", dout_ND);
  const std::int64_t vocabulary = dweight_VD.size(0), features = dout_ND.size(1);
  demands.vector("tokens", tokens_N, dout_ND.size(0), kInt32)
      .matrix("dout", dout_ND, dout_ND.size(0), features, dout_ND.scalar_type())
      .gradient("dweight", dweight_VD, {vocabulary, features});
  if (tokens_N.numel() == 0) return;
  if (dout_ND.is_cuda()) return backward_on_gpu(tokens_N, dout_ND, dweight_VD);
  if (is_double_on_cpu("embedding_backward", dout_ND))
    return cpu::embedding_backward<double>(tokens_N, dout_ND, dweight_VD);
  cpu::embedding_backward<float>(tokens_N, dout_ND, dweight_VD);
}

}  // namespace wmtp::kernels
