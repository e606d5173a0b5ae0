// cuDNN's attention over documents, with what the library demands of a shape, its operands and its
// device data, and with the memory that its plans for compute capability 9.0 ask for. Documents are
// found by their offsets and lengths alone; what lies between them stays as it is.
#include "emulated_gpu/device/packed_attention.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "emulated_gpu/device/attention_math.h"
#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {
namespace {

using kernels::CudaPackedAttention;
using kernels::Element;
using kernels::PackedAttentionShape;

constexpr int kInvalidValue = 1;

// Numbers of 16 bytes, which are read and written at once.
bool is_pack(std::int64_t elements) {
  return elements % 8 == 0;
}
bool on_boundary(const void* pointer) {
  return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

std::string refusal(const PackedAttentionShape& s) {
  if (s.element == Element::fp32) return "fp32";
  if (!is_pack(s.head_dim) || s.head_dim > 256) return "heads of that many features";
  if (!is_pack(s.q_stride) || !is_pack(s.k_stride) || !is_pack(s.v_stride)) return "a stride";
  if (s.num_kv <= 0 || s.num_q % s.num_kv != 0) return "heads that do not divide";
  if (s.documents < 1 || s.length < 2) return "a plan of one token";
  return "";
}

// Sums over keys and rows in fp32, and the gradients of grouped key/value heads before they are
// added; the reproducible form stores the scores' gradients instead of the first.
std::int64_t backward_bytes(const PackedAttentionShape& s) {
  const bool bounded = s.head_dim % 16 == 0;  // else cuDNN takes no bound of all tokens
  const std::int64_t tokens = bounded ? s.tokens : s.documents * s.length;
  const std::int64_t heads = 4 * tokens * s.num_q * s.head_dim;
  const std::int64_t scores = 2 * s.documents * s.num_q * s.length * s.length;
  const std::int64_t grouped = s.num_q != s.num_kv && bounded ? 2 * heads : 0;
  return 4 * tokens * s.num_q + (s.deterministic ? scores : heads) + grouped;
}

// One operand, read from a document's place on.
class Operand {
 public:
  Operand(const void* data, const std::int32_t* offsets, std::int64_t heads, std::int64_t stride,
          const PackedAttentionShape& shape)
      : data_(data), offsets_(offsets), heads_(heads), stride_(stride), shape_(shape) {}

  bool is_sound() const {
    return on_boundary(data_) && std::all_of(offsets_, offsets_ + shape_.documents + 1, is_pack);
  }
  // [length, heads, e]
  Tensor at(std::int64_t document, std::int64_t length) const {
    const auto dtype = shape_.element == Element::bf16 ? at::kBFloat16 : at::kHalf;
    auto* const first = static_cast<char*>(const_cast<void*>(data_)) + 2 * offsets_[document];
    return at::from_blob(first, {length, heads_, shape_.head_dim}, {stride_, shape_.head_dim, 1},
                         dtype);
  }
  Tensor heads(std::int64_t document_number, std::int64_t length) const {
    return document(at(document_number, length), 0, length, shape_.num_q);
  }
  void write(std::int64_t document_number, const Tensor& heads_HLE) const {
    write_document(at(document_number, heads_HLE.size(1)), 0, heads_HLE);
  }

 private:
  const void* data_;
  const std::int32_t* offsets_;
  std::int64_t heads_, stride_;
  const PackedAttentionShape& shape_;
};

struct Operands {
  explicit Operands(const CudaPackedAttention& a)
      : q(a.q, a.q_offsets, a.shape.num_q, a.shape.q_stride, a.shape),
        k(a.k, a.k_offsets, a.shape.num_kv, a.shape.k_stride, a.shape),
        v(a.v, a.v_offsets, a.shape.num_kv, a.shape.v_stride, a.shape),
        out(a.out, a.out_offsets, a.shape.num_q, a.shape.num_q * a.shape.head_dim, a.shape),
        dout(a.dout, a.out_offsets, a.shape.num_q, a.shape.num_q * a.shape.head_dim, a.shape),
        dq(a.dq, a.out_offsets, a.shape.num_q, a.shape.num_q * a.shape.head_dim, a.shape),
        dk(a.dk, a.kv_grad_offsets, a.shape.num_kv, a.shape.num_kv * a.shape.head_dim, a.shape),
        dv(a.dv, a.kv_grad_offsets, a.shape.num_kv, a.shape.num_kv * a.shape.head_dim, a.shape) {}

  bool are_sound(bool backward) const {
    return q.is_sound() && k.is_sound() && v.is_sound() && out.is_sound() &&
           (!backward || (dout.is_sound() && dq.is_sound() && dk.is_sound() && dv.is_sound()));
  }

  Operand q, k, v, out, dout, dq, dk, dv;
};

bool lengths_fit(const CudaPackedAttention& a) {
  std::int64_t sum = 0;
  for (std::int64_t d = 0; d < a.shape.documents; ++d) {
    if (a.lengths[d] < 0 || a.lengths[d] > a.shape.length) return false;
    if (a.q_offsets[d + 1] - a.q_offsets[d] < a.lengths[d] * a.shape.q_stride) return false;
    sum += a.lengths[d];
  }
  return !a.shape.backward || sum <= a.shape.tokens;
}

// [h, length], a view.
Tensor statistics(const CudaPackedAttention& a, std::int64_t document, std::int64_t length) {
  return at::from_blob(a.statistics + a.statistics_offsets[document], {a.shape.num_q, length},
                       {1, a.shape.num_q}, at::kFloat);
}

void attend_document(const CudaPackedAttention& a, const Operands& on, std::int64_t d) {
  const std::int64_t length = a.lengths[d];
  const Heads heads{on.q.heads(d, length), on.k.heads(d, length), on.v.heads(d, length)};
  const double scale = a.shape.scale;
  if (!a.shape.backward) {
    const Forward done = attend(heads, scale);
    on.out.write(d, done.out);
    statistics(a, d, length).copy_(done.lse);
    return;
  }
  const Forward there{on.out.heads(d, length), statistics(a, d, length)};
  const Heads grads =
      attend_backward(heads, there, on.dout.heads(d, length), scale, a.shape.deterministic);
  on.dq.write(d, grads.q);
  on.dk.write(d, grads.k);
  on.dv.write(d, grads.v);
}

// What the library demands of its device data is found where it is read.
int compute(const CudaPackedAttention& args, void* workspace, std::size_t bytes, std::string* why) {
  const Operands operands(args);
  if (!operands.are_sound(args.shape.backward)) {
    *why = "an operand is not on a boundary of 16 bytes";
    return kInvalidValue;
  }
  if (!lengths_fit(args)) {
    *why = "documents outside of the bucket";
    return kInvalidValue;
  }
  poison(workspace, bytes);
  for (std::int64_t d = 0; d < args.shape.documents; ++d)
    if (args.lengths[d] > 0) attend_document(args, operands, d);
  return 0;
}

}  // namespace

int plan_packed_attention(const PackedAttentionShape& shape, std::int64_t* workspace_bytes,
                          std::string* why) {
  *why = refusal(shape);
  if (!why->empty()) return kernels::kNotSupported;
  *workspace_bytes = shape.backward ? backward_bytes(shape) : 16 * shape.documents;
  return 0;
}

int packed_attention(const CudaPackedAttention& args, void* workspace, void* stream,
                     std::string* why) {
  std::int64_t bytes = 0;
  if (const int code = plan_packed_attention(args.shape, &bytes, why)) return code;
  if (!on_boundary(workspace)) {
    *why = "the workspace is not on a boundary of 16 bytes";
    return kInvalidValue;
  }
  // cuDNN 9.19 writes those of other documents than the first elsewhere.
  if (args.shape.backward && args.shape.q_stride != args.shape.num_q * args.shape.head_dim) {
    *why = "the sums of dq are found by the offsets of q, which are not those of dq";
    return kInvalidValue;
  }
  const auto work = [args, workspace, bytes](std::string* reason) {
    return compute(args, workspace, static_cast<std::size_t>(bytes), reason);
  };
  if (recorder() == nullptr) return work(why);
  give(static_cast<cudaStream_t>(stream), [work] {
    std::string reason;
    TORCH_CHECK(work(&reason) == 0, reason);
  });
  return 0;
}

}  // namespace wmtp::emulated
