// B documents of a bucket, S tokens of the longest, H query heads, G key/value heads, E features.
#include "wmtp/kernels/cuda/attention_graph.h"

namespace wmtp::kernels {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using Handle = std::shared_ptr<Tensor_attributes>;

enum Id : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kStatistics,
  kDout,
  kDq,
  kDk,
  kDv,
  kLengths,
  kQOffsets,
  kKOffsets,
  kVOffsets,
  kOutOffsets,
  kStatisticsOffsets,
  kKvGradOffsets
};

class Tensors {
 public:
  Tensors(const PackedAttentionShape& shape, int capability)
      : shape_(shape), graph_(new_graph(shape)) {
    if (capability > 0) graph_->set_sm_version(capability);
  }

  const std::shared_ptr<fe::graph::Graph>& graph() const { return graph_; }

  // int32 [count, 1, 1, 1]
  Handle index(Id id, std::int64_t count) const {
    return graph_->tensor(Tensor_attributes()
                              .set_uid(id)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
  }
  Handle offsets(Id id) const { return index(id, shape_.documents + 1); }

  Handle heads(Id id, std::int64_t num_heads, std::int64_t stride, const Handle& offsets) const {
    Tensor_attributes tensor;
    describe_heads(tensor.set_uid(id), num_heads, stride, offsets);
    return graph_->tensor(tensor);
  }

  // [B, heads, S, E], token by token from each document's offset.
  void describe_heads(Tensor_attributes& tensor, std::int64_t num_heads, std::int64_t stride,
                      const Handle& offsets) const {
    tensor.set_dim({shape_.documents, num_heads, shape_.length, shape_.head_dim})
        .set_stride({shape_.length * stride, shape_.head_dim, stride, 1})
        .set_data_type(shape_.element == Element::fp16 ? fe::DataType_t::HALF
                                                       : fe::DataType_t::BFLOAT16)
        .set_ragged_offset(offsets);
  }

  // [B, H, S, 1] in the order of the tokens.
  void describe_statistics(Tensor_attributes& tensor, const Handle& offsets) const {
    tensor.set_dim({shape_.documents, shape_.num_q, shape_.length, 1})
        .set_stride({shape_.length * shape_.num_q, 1, shape_.num_q, 1})
        .set_data_type(fe::DataType_t::FLOAT)
        .set_ragged_offset(offsets);
  }

  std::int64_t out_stride() const { return shape_.num_q * shape_.head_dim; }
  std::int64_t kv_grad_stride() const { return shape_.num_kv * shape_.head_dim; }

 private:
  static std::shared_ptr<fe::graph::Graph> new_graph(const PackedAttentionShape& shape) {
    auto graph = std::make_shared<fe::graph::Graph>();
    graph
        ->set_io_data_type(shape.element == Element::fp16 ? fe::DataType_t::HALF
                                                          : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    return graph;
  }

  const PackedAttentionShape& shape_;
  std::shared_ptr<fe::graph::Graph> graph_;
};

struct Inputs {
  Handle q, k, v, lengths, out_offsets, statistics_offsets;
};

Inputs inputs_of(const Tensors& tensors, const PackedAttentionShape& shape) {
  return {tensors.heads(kQ, shape.num_q, shape.q_stride, tensors.offsets(kQOffsets)),
          tensors.heads(kK, shape.num_kv, shape.k_stride, tensors.offsets(kKOffsets)),
          tensors.heads(kV, shape.num_kv, shape.v_stride, tensors.offsets(kVOffsets)),
          tensors.index(kLengths, shape.documents),
          tensors.offsets(kOutOffsets),
          tensors.offsets(kStatisticsOffsets)};
}

// Causal inside of each document, whose length hides what lies behind it.
template <class Attributes>
Attributes& set_masks(Attributes& attributes, const Inputs& in, float scale) {
  return attributes.set_attn_scale(scale)
      .set_padding_mask(true)
      .set_seq_len_q(in.lengths)
      .set_seq_len_kv(in.lengths)
      .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
      .set_diagonal_band_right_bound(0);
}

void add_forward(const Tensors& tensors, const PackedAttentionShape& shape, const Inputs& in) {
  auto attributes =
      fe::graph::SDPA_attributes().set_name("packed attention").set_generate_stats(true);
  set_masks(attributes, in, shape.scale);
  const auto [out, statistics] = tensors.graph()->sdpa(in.q, in.k, in.v, attributes);
  tensors.describe_heads(out->set_uid(kOut).set_output(true), shape.num_q, tensors.out_stride(),
                         in.out_offsets);
  tensors.describe_statistics(statistics->set_uid(kStatistics).set_output(true),
                              in.statistics_offsets);
}

// The bound of all tokens keeps the sums over keys, which are fp32, from being B S tokens long.
void add_backward(const Tensors& tensors, const PackedAttentionShape& shape, const Inputs& in) {
  const Handle out = tensors.heads(kOut, shape.num_q, tensors.out_stride(), in.out_offsets);
  const Handle dout = tensors.heads(kDout, shape.num_q, tensors.out_stride(), in.out_offsets);
  Tensor_attributes described;
  tensors.describe_statistics(described.set_uid(kStatistics), in.statistics_offsets);
  const Handle statistics = tensors.graph()->tensor(described);
  auto attributes = fe::graph::SDPA_backward_attributes()
                        .set_name("packed attention backward")
                        .set_max_total_seq_len_q(shape.tokens)
                        .set_max_total_seq_len_kv(shape.tokens)
                        .set_deterministic_algorithm(shape.deterministic);
  set_masks(attributes, in, shape.scale);
  const auto [dq, dk, dv] =
      tensors.graph()->sdpa_backward(in.q, in.k, in.v, out, dout, statistics, attributes);
  const Handle kv_offsets = tensors.offsets(kKvGradOffsets);
  tensors.describe_heads(dq->set_uid(kDq).set_output(true), shape.num_q, tensors.out_stride(),
                         in.out_offsets);
  tensors.describe_heads(dk->set_uid(kDk).set_output(true), shape.num_kv, tensors.kv_grad_stride(),
                         kv_offsets);
  tensors.describe_heads(dv->set_uid(kDv).set_output(true), shape.num_kv, tensors.kv_grad_stride(),
                         kv_offsets);
}

void* writable(const void* pointer) {
  return const_cast<void*>(pointer);  // cuDNN has one kind of pointer for what is read and written
}

}  // namespace

std::shared_ptr<fe::graph::Graph> attention_graph(const PackedAttentionShape& shape,
                                                  int capability) {
  const Tensors tensors(shape, capability);
  const Inputs in = inputs_of(tensors, shape);
  shape.backward ? add_backward(tensors, shape, in) : add_forward(tensors, shape, in);
  return tensors.graph();
}

std::unordered_map<std::int64_t, void*> graph_pointers(const CudaPackedAttention& args) {
  std::unordered_map<std::int64_t, void*> pointers{
      {kQ, writable(args.q)},
      {kK, writable(args.k)},
      {kV, writable(args.v)},
      {kOut, args.out},
      {kStatistics, args.statistics},
      {kLengths, writable(args.lengths)},
      {kQOffsets, writable(args.q_offsets)},
      {kKOffsets, writable(args.k_offsets)},
      {kVOffsets, writable(args.v_offsets)},
      {kOutOffsets, writable(args.out_offsets)},
      {kStatisticsOffsets, writable(args.statistics_offsets)}};
  if (!args.shape.backward) return pointers;
  pointers.insert({{kDout, writable(args.dout)},
                   {kDq, args.dq},
                   {kDk, args.dk},
                   {kDv, args.dv},
                   {kKvGradOffsets, writable(args.kv_grad_offsets)}});
  return pointers;
}

}  // namespace wmtp::kernels
