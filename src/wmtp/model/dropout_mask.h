// The masks of a micro-batch's dropout sites, for all of its documents.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/kernels/dropout.h"
#include "wmtp/model/batch.h"

namespace wmtp::model {

// STREAM. Dropout::streams_SD: a stream follows from site, step and sample. D may be more than
// there are samples: what stands for documents without a token is read by nobody.
Tensor dropout_streams(std::span<const std::string> sites, std::int64_t step,
                       std::span<const std::uint64_t> sample_ids, std::int64_t num_documents,
                       c10::Device device);

// `rows_M`: the rows that reach the site; undefined: all. Error internal for a site that the batch
// has no streams of.
kernels::DropoutMask draw_mask(const Dropout& dropout, double p, std::string_view site,
                               const Tensor& rows_M = {});

}  // namespace wmtp::model
