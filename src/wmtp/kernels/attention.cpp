#include "wmtp/kernels/attention.h"

#include <ATen/ops/empty_like.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/attention_aten.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/packed/attention.h"
#include "wmtp/kernels/packed/documents.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/tensor/copy_to_device.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

// Below these cuDNN gains nothing, and it refuses documents of one token.
constexpr std::int32_t kShortestForCudnn = 128;
constexpr std::int64_t kSmallestForCudnn = 32;
constexpr std::int64_t kLargestForCudnn = 128;  // above it there is no body

void check_attention(const ArgChecks& demands, const Tensor& q_NHE, const Tensor& k_NGE,
                     const Tensor& v_NGE, const Documents& documents) {
  WMTP_CHECK(q_NHE.dim() == 3 && k_NGE.dim() == 3, "attention: q and k are not [n, heads, e]");
  const std::int64_t tokens = q_NHE.size(0), num_q = q_NHE.size(1), size = q_NHE.size(2);
  const std::int64_t num_kv = k_NGE.size(1);
  const DType dtype = q_NHE.scalar_type();
  demands.heads("q", q_NHE, {tokens, num_q, size}, dtype)
      .heads("k", k_NGE, {tokens, num_kv, size}, dtype)
      .heads("v", v_NGE, {tokens, num_kv, size}, dtype);
  WMTP_CHECK(num_kv > 0 && num_q % num_kv == 0, "attention: heads are no multiple of kv heads");
  WMTP_CHECK(!documents.start.empty() && documents.start.back() == tokens,
             "attention: the documents do not end where the tokens do");
}

bool is_for_cudnn(std::int64_t head_dim, const Documents& documents) {
  return documents.uniform && documents.max_length >= kShortestForCudnn &&
         head_dim >= kSmallestForCudnn && head_dim <= kLargestForCudnn;
}

AttentionChoice choose(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                       const Documents& documents, const AttentionOptions& options) {
  const bool asks_for_cudnn = options.choice == AttentionChoice::cudnn && q_NHE.is_cuda();
  if (options.choice != AttentionChoice::automatic && !asks_for_cudnn) return options.choice;
  if (q_NHE.is_cpu()) return AttentionChoice::flash;
  const std::int64_t head_dim = q_NHE.size(2);
  if (!asks_for_cudnn && (q_NHE.scalar_type() == kFloat32 || head_dim > kLargestForFlash))
    return AttentionChoice::efficient;
  if (is_for_cudnn(head_dim, documents) && !options.deterministic) return AttentionChoice::cudnn;
  const bool packed =
      asks_for_cudnn && takes_packed(q_NHE, k_NGE, v_NGE, documents, options.deterministic);
  return packed ? AttentionChoice::cudnn_packed : AttentionChoice::flash;
}

[[noreturn]] void refuse(std::string_view what, const Tensor& tensor) {
  throw Error(ErrorKind::config, "kernels",
              std::string(what) + " attention does not run on " + tensor.device().str(),
              "set attention to automatic");
}

Documents documents_on_host(std::vector<std::int32_t> start) {
  WMTP_CHECK(!start.empty() && start.front() == 0, "documents do not start at 0");
  Documents documents;
  documents.uniform = start.size() > 1;
  for (std::size_t d = 0; d + 1 < start.size(); ++d) {
    const std::int32_t length = start[d + 1] - start[d];
    WMTP_CHECK(length >= 0, "documents overlap");
    documents.max_length = std::max(documents.max_length, length);
  }
  for (std::size_t d = 0; d + 1 < start.size(); ++d)
    documents.uniform &= start[d + 1] - start[d] == documents.max_length;
  documents.start = std::move(start);
  return documents;
}

Documents on_device(Documents documents, c10::Device device) {
  if (device.is_cpu()) return documents;
  documents.start_device = copy_to_device<std::int32_t>(documents.start, device);
  starts_changed(documents);
  return documents;
}

}  // namespace

void starts_changed(Documents& documents) {
  if (!documents.start_device.defined()) return;
  documents.packed = std::make_shared<PackedDocuments>(documents.start_device, documents.max_length,
                                                       documents.start.back());
}

Documents make_documents(std::vector<std::int32_t> start, c10::Device device) {
  return on_device(documents_on_host(std::move(start)), device);
}

// One more than there are, at least: whether a filler is among them then makes no difference where
// the others are a power of two.
Documents make_rounded_documents(std::vector<std::int32_t> start, c10::Device device) {
  Documents documents = documents_on_host(std::move(start));
  if (documents.uniform) return on_device(std::move(documents), device);
  const std::size_t num_starts = documents.start.size();
  const PackedBucket bucket = packed_bucket(static_cast<std::int64_t>(num_starts),
                                            documents.max_length, documents.start.back());
  documents.start.resize(std::max(num_starts, static_cast<std::size_t>(bucket.documents) + 1),
                         documents.start.back());
  documents.max_length = static_cast<std::int32_t>(bucket.length);
  return on_device(std::move(documents), device);
}

AttentionResult attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                          const Documents& documents, const AttentionOptions& options) {
  const ProfiledOperator operation("wmtp::attention");
  check_attention(ArgChecks("attention", q_NHE), q_NHE, k_NGE, v_NGE, documents);
  const AttentionChoice choice = choose(q_NHE, k_NGE, v_NGE, documents, options);
  if (q_NHE.is_cpu()) {
    const bool is_double = is_double_on_cpu("attention", q_NHE);
    if (choice == AttentionChoice::flash) return cpu_attention(q_NHE, k_NGE, v_NGE, documents);
    if (choice == AttentionChoice::cudnn) refuse("cuDNN", q_NHE);
    if (choice == AttentionChoice::efficient) refuse("efficient", q_NHE);
    return is_double ? cpu::attention<double>(q_NHE, k_NGE, v_NGE, documents)
                     : cpu::attention<float>(q_NHE, k_NGE, v_NGE, documents);
  }
  if (choice == AttentionChoice::reference) refuse("reference", q_NHE);
  if (q_NHE.size(0) == 0) return {at::empty_like(q_NHE), {}, {}, {}, choice};
  return gpu_attention(choice, q_NHE, k_NGE, v_NGE, documents);
}

AttentionGrads attention_backward(const AttentionBackward& args) {
  const ProfiledOperator operation("wmtp::attention_backward");
  WMTP_CHECK(args.forward && args.documents, "attention_backward: no forward result");
  const ArgChecks demands("attention_backward", args.q_NHE);
  check_attention(demands, args.q_NHE, args.k_NGE, args.v_NGE, *args.documents);
  demands.heads("dout", args.dout_NHE, args.q_NHE.sizes(), args.q_NHE.scalar_type());
  const AttentionChoice used = args.forward->used;
  if (args.q_NHE.is_cpu()) {
    if (used == AttentionChoice::flash) return cpu_attention_backward(args);
    return args.q_NHE.scalar_type() == kFloat64 ? cpu::attention_backward<double>(args)
                                                : cpu::attention_backward<float>(args);
  }
  if (args.q_NHE.size(0) == 0)
    return {at::empty_like(args.q_NHE), at::empty_like(args.k_NGE), at::empty_like(args.v_NGE)};
  return gpu_attention_backward(args);
}

}  // namespace wmtp::kernels
