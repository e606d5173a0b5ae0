#include "wmtp/model/dropout_mask.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <fmt/format.h>

#include "wmtp/core/rng.h"

namespace wmtp::model {

kernels::DropoutMask draw_mask(const Dropout& dropout, double p, std::string_view site,
                               const Tensor& rows_M) {
  const auto count = static_cast<std::int64_t>(dropout.sample_ids.size());
  const c10::Device device = dropout.document_N.device();
  // Pinned, so that the host need not wait for the copy.
  const Tensor streams =
      at::empty({count}, at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda()));
  for (std::int64_t d = 0; d < count; ++d)
    streams.data_ptr<std::int64_t>()[d] = static_cast<std::int64_t>(stream_id(fmt::format(
        "dropout/{}/{}/{}", site, dropout.step, dropout.sample_ids[static_cast<std::size_t>(d)])));
  auto rows_of = [&](const Tensor& all_N) {
    return rows_M.defined() ? at::index_select(all_N, 0, rows_M) : all_N;
  };
  return {.p = p,
          .seed = dropout.seed,
          .streams_D = streams.to(device, /*non_blocking=*/true),
          .document_N = rows_of(dropout.document_N),
          .position_N = rows_of(dropout.position_N)};
}

}  // namespace wmtp::model
