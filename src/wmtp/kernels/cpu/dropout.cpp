// N tokens, I features.
#include "wmtp/kernels/dropout.h"

#include "wmtp/core/rng.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {

template <class T>
void dropout(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI) {
  const Rows<T> x(x_NI), out(out_NI);
  const auto* document = mask.document_N.data_ptr<std::int32_t>();
  const auto* position = mask.position_N.data_ptr<std::int32_t>();
  const auto* streams = mask.streams_D.data_ptr<std::int64_t>();
  const T scale = static_cast<T>(1 / (1 - mask.p));
  parallel_for(x.rows, grain_of(x.columns * 8), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const auto stream = static_cast<std::uint64_t>(streams[document[n]]);
      const std::int64_t first = position[n] * x.columns;
      PhiloxWords words{};
      for (std::int64_t i = 0; i < x.columns; ++i) {
        const auto element = static_cast<std::uint64_t>(first + i);
        if (i == 0 || element % 4 == 0) words = philox4x32_10(mask.seed, stream, element / 4);
        out[n][i] = unit_uniform(words[element % 4]) >= mask.p ? x[n][i] * scale : T{0};
      }
    }
  });
}

template void dropout<float>(const Tensor&, const DropoutMask&, const Tensor&);
template void dropout<double>(const Tensor&, const DropoutMask&, const Tensor&);

}  // namespace wmtp::kernels::cpu
