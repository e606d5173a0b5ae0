#include "wmtp/model/dropout_mask.h"

#include <ATen/ops/index_select.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::model {

Tensor dropout_streams(std::span<const std::string> sites, std::int64_t step,
                       std::span<const std::uint64_t> sample_ids, std::int64_t num_documents,
                       c10::Device device) {
  std::vector<std::int64_t> streams;
  for (std::size_t site = 0; site < sites.size(); ++site) {
    for (const std::uint64_t sample : sample_ids)
      streams.push_back(static_cast<std::int64_t>(
          stream_id(fmt::format("dropout/{}/{}/{}", sites[site], step, sample))));
    streams.resize((site + 1) * static_cast<std::size_t>(num_documents));
  }
  return copy_to_device<std::int64_t>(streams, device).view({-1, num_documents});
}

kernels::DropoutMask draw_mask(const Dropout& dropout, double p, std::string_view site,
                               const Tensor& rows_M) {
  const auto found = std::ranges::find(dropout.sites, site);
  WMTP_CHECK(found != dropout.sites.end(), "a mask of a site that the batch does not know");
  auto rows_of = [&](const Tensor& all_N) {
    return rows_M.defined() ? at::index_select(all_N, 0, rows_M) : all_N;
  };
  return {.p = p,
          .seed = dropout.seed,
          .streams_D = dropout.streams_SD.select(0, found - dropout.sites.begin()),
          .document_N = rows_of(dropout.document_N),
          .position_N = rows_of(dropout.position_N)};
}

}  // namespace wmtp::model
