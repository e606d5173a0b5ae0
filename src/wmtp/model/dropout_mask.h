// The mask of one dropout site in one step, for all documents of a batch.
#pragma once
#include <string_view>

#include "wmtp/kernels/dropout.h"
#include "wmtp/model/batch.h"

namespace wmtp::model {

// `site`: a module's name. `rows_M`: the rows that reach it; undefined: all.
kernels::DropoutMask draw_mask(const Dropout& dropout, double p, std::string_view site,
                               const Tensor& rows_M = {});

}  // namespace wmtp::model
