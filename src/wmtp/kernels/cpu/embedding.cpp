// N tokens, V vocabulary, D features.
#include "wmtp/kernels/embedding.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {
namespace {

void check_tokens(const Tensor& tokens_N, std::int64_t vocabulary) {
  const std::int32_t* tokens = tokens_N.data_ptr<std::int32_t>();
  for (std::int64_t n = 0; n < tokens_N.size(0); ++n)
    if (tokens[n] < 0 || tokens[n] >= vocabulary)
      throw Error(ErrorKind::data, "kernels",
                  fmt::format("token {} of the batch has id {}, outside the vocabulary of {}", n,
                              tokens[n], vocabulary),
                  "do model and tokenizer belong together?");
}

}  // namespace

template <class T>
void embedding(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND) {
  check_tokens(tokens_N, weight_VD.size(0));
  const std::int32_t* tokens = tokens_N.data_ptr<std::int32_t>();
  const Rows<T> weight(weight_VD), out(out_ND);
  parallel_for(out.rows, grain_of(out.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) std::copy_n(weight[tokens[n]], out.columns, out[n]);
  });
}

template <class T>
void embedding_backward(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD) {
  check_tokens(tokens_N, dweight_VD.size(0));
  const std::int32_t* tokens = tokens_N.data_ptr<std::int32_t>();
  const Rows<T> dout(dout_ND), dweight(dweight_VD);
  // Parts are columns: every row of dweight is summed in token order whatever the number of
  // threads.
  parallel_for(dout.columns, 128, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = 0; n < dout.rows; ++n) {
      T* sum = dweight[tokens[n]];
      for (std::int64_t d = begin; d < end; ++d) sum[d] += dout[n][d];
    }
  });
}

template void embedding<float>(const Tensor&, const Tensor&, const Tensor&);
template void embedding<double>(const Tensor&, const Tensor&, const Tensor&);
template void embedding_backward<float>(const Tensor&, const Tensor&, const Tensor&);
template void embedding_backward<double>(const Tensor&, const Tensor&, const Tensor&);

}  // namespace wmtp::kernels::cpu
