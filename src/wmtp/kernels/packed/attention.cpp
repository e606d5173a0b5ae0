// N tokens, H query heads, G key/value heads, E head features.
#include "wmtp/kernels/packed/attention.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/kernels/cuda/packed_attention.h"
#include "wmtp/kernels/packed/documents.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels {
namespace {

// Heads of a token one behind the other, as in the fused projection; any distance between tokens.
Tensor side_by_side(const Tensor& heads_NHE) {
  const bool is = heads_NHE.size(1) == 1 || heads_NHE.stride(1) == heads_NHE.size(2);
  return is ? heads_NHE : heads_NHE.contiguous();
}

// An upper bound of the distance between tokens when the heads were fitted.
std::int64_t widest_stride(const Tensor& heads_NHE) {
  return std::max(heads_NHE.stride(0), heads_NHE.size(1) * (heads_NHE.size(2) + 7));
}

PackedDocuments& packed_of(const Documents& documents) {
  WMTP_CHECK(documents.packed != nullptr, "packed attention: documents that are not on a GPU");
  return *documents.packed;
}

const CudaKernels& kernels_with_packed() {
  const CudaKernels& kernels = gpu_kernels();
  if (!kernels.packed_attention || !kernels.packed_attention_plan)
    throw Error(ErrorKind::config, "kernels",
                "attention: the GPU plugin was built without cuDNN's frontend",
                "set runtime.attention: auto");
  return kernels;
}

CudaPackedAttention arguments(const GpuHeads& heads, PackedDocuments& documents) {
  CudaPackedAttention args{};
  PackedAttentionShape& shape = args.shape;
  shape.element = element_of("packed attention", heads.q_NHE);
  WMTP_CHECK(shape.element != Element::fp32, "packed attention: fp32");
  shape.documents = documents.bucket().documents, shape.length = documents.bucket().length;
  shape.num_q = heads.q_NHE.size(1), shape.num_kv = heads.k_NGE.size(1);
  shape.head_dim = heads.q_NHE.size(2);
  shape.q_stride = row_stride(heads.q_NHE), shape.k_stride = row_stride(heads.k_NGE);
  shape.v_stride = row_stride(heads.v_NGE);
  shape.scale = static_cast<float>(heads.scale);
  args.q = data_of(heads.q_NHE), args.k = data_of(heads.k_NGE), args.v = data_of(heads.v_NGE);
  const auto indices = [](const Tensor& tensor) { return tensor.const_data_ptr<std::int32_t>(); };
  args.lengths = indices(documents.lengths());
  args.q_offsets = indices(documents.offsets(shape.q_stride));
  args.k_offsets = indices(documents.offsets(shape.k_stride));
  args.v_offsets = indices(documents.offsets(shape.v_stride));
  args.out_offsets = indices(documents.offsets(shape.num_q * shape.head_dim));
  args.statistics_offsets = indices(documents.offsets(shape.num_q));
  args.kv_grad_offsets = indices(documents.offsets(shape.num_kv * shape.head_dim));
  return args;
}

void check_packed(const PackedAttentionShape& shape, int code, const std::string& why) {
  if (code == kNotSupported)
    throw Error(ErrorKind::config, "kernels",
                fmt::format("attention: cuDNN has no {} for {} documents of {} tokens, {} query "
                            "and {} key/value heads of {} features: {}",
                            shape.backward ? "backward" : "forward", shape.documents, shape.length,
                            shape.num_q, shape.num_kv, shape.head_dim, why),
                "set runtime.attention: auto");
  if (code != 0) throw launch_error("packed attention", code, why);
}

// In memory of its own, which the allocator may hand on at once: what comes next is on the same
// stream.
void run_plan(const CudaPackedAttention& args, const Tensor& like) {
  const CudaKernels& kernels = kernels_with_packed();
  std::int64_t bytes = 0;
  std::string why;
  check_packed(args.shape, kernels.packed_attention_plan(args.shape, &bytes, &why), why);
  const Tensor workspace = at::empty({bytes}, like.options().dtype(at::kByte));
  check_packed(args.shape, kernels.packed_attention(args, data_of(workspace), gpu_stream(), &why),
               why);
}

GpuHeads all_side_by_side(const GpuHeads& heads) {
  return {side_by_side(heads.q_NHE), side_by_side(heads.k_NGE), side_by_side(heads.v_NGE),
          heads.scale};
}

// The sums over keys of dq, which a plan keeps in its workspace, lie as dq does, but cuDNN 9.19
// finds a document's place in them by the offsets of q: both are to be the same.
GpuHeads for_backward(const GpuHeads& heads) {
  GpuHeads tidy = all_side_by_side(heads);
  tidy.q_NHE = tidy.q_NHE.contiguous();
  return tidy;
}

}  // namespace

bool has_packed_attention() {
  return cuda_loaded() && gpu_kernels().packed_attention != nullptr;
}

bool takes_packed(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                  const Documents& documents, bool deterministic) {
  const PackedDocuments& packed = packed_of(documents);
  for (const Tensor& heads : {q_NHE, k_NGE, v_NGE})
    if (!packed.fits(widest_stride(heads))) return false;
  return !deterministic ||
         packed_score_bytes(packed.bucket(), q_NHE.size(1)) <= kMostPackedScoreBytes;
}

AttentionResult packed_attention(const GpuHeads& heads, const Documents& documents) {
  const GpuHeads tidy = all_side_by_side(heads);
  const Tensor& q = tidy.q_NHE;
  AttentionResult result;
  result.used = AttentionChoice::cudnn_packed;
  result.out_NHE = at::empty({q.size(0), q.size(1), q.size(2)}, q.options());
  result.lse = at::empty({q.size(0), q.size(1)}, q.options().dtype(kFloat32));
  CudaPackedAttention args = arguments(tidy, packed_of(documents));
  args.out = data_of(result.out_NHE);
  args.statistics = floats_of(result.lse);
  run_plan(args, q);
  return result;
}

AttentionGrads packed_attention_backward(const GpuHeads& heads, const GpuOutput& output) {
  const GpuHeads tidy = for_backward(heads);
  const Tensor &q = tidy.q_NHE, &k = tidy.k_NGE;
  const Tensor out = output.out_NHE.contiguous(), dout = output.dout_NHE.contiguous();
  PackedDocuments& documents = packed_of(output.documents);
  CudaPackedAttention args = arguments(tidy, documents);
  args.shape.backward = true;
  args.shape.deterministic = output.deterministic;
  args.shape.tokens = documents.bucket().tokens;
  AttentionGrads grads{at::empty({q.size(0), q.size(1), q.size(2)}, q.options()),
                       at::empty({k.size(0), k.size(1), k.size(2)}, k.options()),
                       at::empty({k.size(0), k.size(1), k.size(2)}, k.options())};
  args.out = data_of(out), args.dout = data_of(dout);
  args.statistics = floats_of(output.forward.lse);
  args.dq = data_of(grads.dq_NHE), args.dk = data_of(grads.dk_NGE);
  args.dv = data_of(grads.dv_NGE);
  run_plan(args, q);
  return grads;
}

}  // namespace wmtp::kernels
