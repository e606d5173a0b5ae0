// M rows, V vocabulary, D features.
#include "wmtp/kernels/cross_entropy.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {
namespace {

template <class T>
T log_sum_exp(const T* logits, std::int64_t size) {
  T top = logits[0];
  for (std::int64_t v = 1; v < size; ++v) top = std::max(top, logits[v]);
  T sum = 0;
  for (std::int64_t v = 0; v < size; ++v) sum += std::exp(logits[v] - top);
  return top + std::log(sum);
}

}  // namespace

void check_targets(const Tensor& targets_M, std::int64_t vocabulary) {
  const std::int32_t* targets = targets_M.data_ptr<std::int32_t>();
  for (std::int64_t m = 0; m < targets_M.size(0); ++m)
    if (targets[m] < 0 || targets[m] >= vocabulary)
      throw Error(ErrorKind::data, "kernels",
                  fmt::format("target {} has id {}, outside the vocabulary of {}", m, targets[m],
                              vocabulary),
                  "do model and tokenizer belong together?");
}

template <class T>
void cross_entropy(const CrossEntropy& args) {
  const Rows<T> logits(args.logits_MV), hidden(args.hidden_MD);
  const std::int32_t* targets = args.targets_M.data_ptr<std::int32_t>();
  const T* scale = data_or_null<T>(args.scale_M);
  T* nll = args.nll_M.data_ptr<T>();
  parallel_for(logits.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      T* z = logits[m];
      const T lse = log_sum_exp(z, logits.columns);
      nll[m] = lse - z[targets[m]];
      if (!scale) continue;
      if (scale[m] == 0) {
        std::fill_n(z, logits.columns, T(0));
        if (hidden) std::fill_n(hidden[m], hidden.columns, T(0));
        continue;
      }
      for (std::int64_t v = 0; v < logits.columns; ++v) z[v] = scale[m] * std::exp(z[v] - lse);
      z[targets[m]] -= scale[m];
    }
  });
}

template void cross_entropy<float>(const CrossEntropy&);
template void cross_entropy<double>(const CrossEntropy&);

}  // namespace wmtp::kernels::cpu
