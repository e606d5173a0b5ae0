#include "wmtp/kernels/responses.h"

namespace wmtp::kernels {

void check_responses(const ArgChecks& demands, const Responses& responses, const Tensor& values_N) {
  const std::int64_t num_tokens = values_N.numel();
  demands.vector("values", values_N, num_tokens, values_N.scalar_type())
      .vector("mask", responses.mask_N, num_tokens, kMaskType)
      .vector("doc_start", responses.doc_start_D1, responses.doc_start_D1.numel(), kInt32);
  if (responses.document_N.defined())
    demands.vector("document", responses.document_N, num_tokens, kInt32);
}

}  // namespace wmtp::kernels
