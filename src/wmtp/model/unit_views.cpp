#include "wmtp/model/unit_views.h"

#include "wmtp/core/error.h"

namespace wmtp::model {
namespace {

// Walks a weight buffer and its gradient buffer in step.
class FlatReader {
 public:
  FlatReader(const UnitBuffers& buffers, const Tensor& grad)
      : is_frozen_(buffers.frozen.defined()),
        weights_(is_frozen_ ? buffers.frozen : buffers.trained),
        grad_(is_frozen_ ? Tensor() : grad),
        float8_(buffers.float8),
        inverse_(buffers.inverse) {}

  Projection matrix(std::int64_t rows, std::int64_t columns) {
    const std::int64_t begin = advance(rows * columns);
    auto view = [&](const Tensor& flat) {
      return flat.defined() ? flat.narrow(0, begin, rows * columns).view({rows, columns})
                            : Tensor();
    };
    Projection projection{view(float8_.defined() ? float8_ : weights_), view(grad_), is_frozen_};
    if (float8_.defined()) projection.inverse = inverse_.narrow(0, num_matrices_++, 1);
    return projection;
  }

  NormWeight vector(std::int64_t size) {
    const std::int64_t begin = advance(size);
    return {weights_.narrow(0, begin - in_float8(), size),
            grad_.defined() ? grad_.narrow(0, begin, size) : Tensor()};
  }

  // The gradient of everything behind what was taken so far.
  Tensor rest_of_gradient() const {
    return grad_.defined() ? grad_.narrow(0, at_, grad_.size(0) - at_) : Tensor();
  }

 private:
  std::int64_t advance(std::int64_t size) {
    const std::int64_t begin = at_;
    at_ += size;
    WMTP_CHECK(at_ <= in_float8() + (weights_.defined() ? weights_.size(0) : 0),
               "a unit's buffer is shorter than its parameters");
    return begin;
  }
  std::int64_t in_float8() const { return float8_.defined() ? float8_.size(0) : 0; }

  bool is_frozen_;
  Tensor weights_, grad_, float8_, inverse_;
  std::int64_t at_ = 0, num_matrices_ = 0;
};

}  // namespace

BlockShape block_shape(const ModelConfig& config) {
  return {.heads = {.num_heads = static_cast<int>(config.num_heads),
                    .num_kv_heads = static_cast<int>(config.num_kv_heads),
                    .head_dim = static_cast<int>(config.head_dim)},
          .norm_eps = config.norm_eps,
          .qk_norm = config.qk_norm};
}

BlockParams block_params(const ModelConfig& config, const UnitBuffers& buffers,
                         const UnitGrad& grad) {
  FlatReader reader(buffers, grad.flat);
  const std::int64_t q_width = config.num_heads * config.head_dim;
  const std::int64_t kv_width = config.num_kv_heads * config.head_dim;
  BlockParams params;
  params.qkv = reader.matrix(q_width + 2 * kv_width, config.dim);
  params.o = reader.matrix(config.dim, q_width);
  params.gate_up = reader.matrix(2 * config.ffn_dim, config.dim);
  params.down = reader.matrix(config.dim, config.ffn_dim);
  if (grad.fresh) {
    for (Projection* matrix : {&params.qkv, &params.o, &params.gate_up, &params.down})
      matrix->adds = false;
    if (Tensor vectors = reader.rest_of_gradient(); vectors.defined()) vectors.zero_();
  }
  params.input_norm = reader.vector(config.dim);
  params.post_norm = reader.vector(config.dim);
  if (config.qk_norm) {
    params.q_norm = reader.vector(config.head_dim);
    params.k_norm = reader.vector(config.head_dim);
  }
  return params;
}

RootParams root_params(const ModelConfig& config, const UnitBuffers& buffers,
                       const UnitGrad& grad) {
  if (grad.fresh && grad.flat.defined()) grad.flat.zero_();
  FlatReader reader(buffers, grad.flat);
  const Projection embedding = reader.matrix(config.vocab_size, config.dim);
  RootParams params;
  params.embedding_VD = embedding.weight_OI;
  params.dembedding_VD = embedding.dweight_OI;
  params.unembedding = config.tied ? embedding : reader.matrix(config.vocab_size, config.dim);
  params.norm = reader.vector(config.dim);
  return params;
}

}  // namespace wmtp::model
