// N rows of hidden, M of them with a target, V vocabulary, D features; C rows of a chunk.
#include "wmtp/kernels/linear_cross_entropy.h"

#include <ATen/ops/index_select.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/support/checks.h"

namespace wmtp::kernels {
namespace {

constexpr std::int64_t kCpuChunkBytes = std::int64_t{64} << 20;
constexpr std::int64_t kGpuChunkBytes = std::int64_t{512} << 20;

std::int64_t chunk_rows(const LinearCrossEntropy& args) {
  return loss_chunk_rows({.rows = args.targets_M.size(0),
                          .row_bytes = args.weight_VD.size(0) *
                                       static_cast<std::int64_t>(args.weight_VD.element_size()),
                          .wanted = args.chunk_rows,
                          .on_gpu = args.hidden_ND.is_cuda()});
}

void check_linear_cross_entropy(const LinearCrossEntropy& args) {
  const ArgChecks demands("linear_cross_entropy", args.hidden_ND);
  const DType dtype = args.hidden_ND.scalar_type();
  const std::int64_t features = args.hidden_ND.size(1);
  demands.matrix("hidden", args.hidden_ND, args.hidden_ND.size(0), features, dtype)
      .matrix("weight", args.weight_VD, args.weight_VD.size(0), features, dtype);
  const bool all = !args.rows_M.defined();
  const std::int64_t targets = all ? args.hidden_ND.size(0) : args.rows_M.size(0);
  demands.vector("targets", args.targets_M, targets, kInt32);
  if (!all) demands.vector("rows", args.rows_M, targets, kInt32);
  WMTP_CHECK(args.weight_VD.size(0) > 0, "linear_cross_entropy: an empty vocabulary");
}

void check_linear_cross_entropy(const LinearCrossEntropy& args,
                                const LinearCrossEntropyGrads& grads) {
  const ArgChecks demands("linear_cross_entropy", args.hidden_ND);
  const DType dtype = args.hidden_ND.scalar_type();
  demands.vector("scale", grads.scale_M, args.targets_M.size(0), statistics_dtype(dtype))
      .matrix("dhidden", grads.dhidden_ND, args.hidden_ND.size(0), args.hidden_ND.size(1), dtype);
  if (grads.dweight_VD.defined())
    demands.gradient("dweight", grads.dweight_VD, args.weight_VD.sizes());
}

// Buffers of one chunk, made once and used for all.
struct Buffers {
  Tensor logits_CV, hidden_CD, dhidden_CD;
};

// The rows of one chunk: [first, first + count) of the M.
struct Chunk {
  std::int64_t first = 0, count = 0;

  Tensor of(const Tensor& tensor_M) const { return tensor_M.narrow(0, first, count); }
};

void forward(const LinearCrossEntropy& args, const Chunk& chunk, const Buffers& buffers,
             CrossEntropy& pass) {
  pass.targets_M = chunk.of(args.targets_M);
  pass.logits_MV = buffers.logits_CV.narrow(0, 0, chunk.count);
  Tensor hidden_CD;
  if (buffers.hidden_CD.defined()) {
    // A copy even where all rows have targets: rows of scale 0 are cleared in it before dW reads
    // it.
    hidden_CD = buffers.hidden_CD.narrow(0, 0, chunk.count);
    if (args.rows_M.defined())
      at::index_select_out(hidden_CD, args.hidden_ND, 0, chunk.of(args.rows_M));
    else
      hidden_CD.copy_(chunk.of(args.hidden_ND));
    if (pass.scale_M.defined()) pass.hidden_MD = hidden_CD;
  } else {
    hidden_CD = chunk.of(args.hidden_ND);
  }
  linear(hidden_CD, args.weight_VD, pass.logits_MV);
  cross_entropy(pass);
}

void backward(const LinearCrossEntropy& args, const LinearCrossEntropyGrads& grads,
              const Chunk& chunk, const Buffers& buffers, const CrossEntropy& pass) {
  const Tensor& dlogits_CV = pass.logits_MV;
  if (args.rows_M.defined()) {
    const Tensor dhidden_CD = buffers.dhidden_CD.narrow(0, 0, chunk.count);
    linear_backward_input(dlogits_CV, args.weight_VD, dhidden_CD);
    Tensor dhidden_ND = grads.dhidden_ND;
    dhidden_ND.index_copy_(0, chunk.of(args.rows_M).to(kInt64), dhidden_CD);
  } else {
    linear_backward_input(dlogits_CV, args.weight_VD, chunk.of(grads.dhidden_ND));
  }
  if (grads.dweight_VD.defined())
    linear_backward_weight(dlogits_CV, pass.hidden_MD, grads.dweight_VD);
}

Tensor run(const LinearCrossEntropy& args, const LinearCrossEntropyGrads* grads) {
  const std::int64_t targets = args.targets_M.size(0), rows = chunk_rows(args);
  const auto options = args.hidden_ND.options();
  const Tensor nll_M =
      at::empty({targets}, options.dtype(statistics_dtype(args.hidden_ND.scalar_type())));
  Buffers buffers;
  buffers.logits_CV = at::empty({rows, args.weight_VD.size(0)}, options);
  if (args.rows_M.defined() || grads)
    buffers.hidden_CD = at::empty({rows, args.hidden_ND.size(1)}, options);
  if (args.rows_M.defined() && grads) {
    buffers.dhidden_CD = at::empty({rows, args.hidden_ND.size(1)}, options);
    grads->dhidden_ND.zero_();
  }
  for (std::int64_t first = 0; first < targets; first += rows) {
    const Chunk chunk{first, std::min(rows, targets - first)};
    CrossEntropy pass;
    pass.nll_M = chunk.of(nll_M);
    if (grads) pass.scale_M = chunk.of(grads->scale_M);
    forward(args, chunk, buffers, pass);
    if (grads) backward(args, *grads, chunk, buffers, pass);
  }
  return nll_M;
}

}  // namespace

std::int64_t loss_chunk_rows(const LossChunk& chunk) {
  const std::int64_t rows = std::max<std::int64_t>(chunk.rows, 1);
  if (chunk.wanted > 0) return std::min(chunk.wanted, rows);
  const std::int64_t most = std::max<std::int64_t>(
      (chunk.on_gpu ? kGpuChunkBytes : kCpuChunkBytes) / std::max<std::int64_t>(chunk.row_bytes, 1),
      1);
  // Chunks of equal size, so that the last one is not a GEMM of a few rows.
  const std::int64_t num_chunks = (rows + most - 1) / most;
  return (rows + num_chunks - 1) / num_chunks;
}

Tensor nll(const LinearCrossEntropy& args) {
  check_linear_cross_entropy(args);
  return run(args, nullptr);
}

Tensor nll_and_grad(const LinearCrossEntropy& args, const LinearCrossEntropyGrads& grads) {
  check_linear_cross_entropy(args);
  check_linear_cross_entropy(args, grads);
  return run(args, &grads);
}

}  // namespace wmtp::kernels
