// A base as `models.*.quantize: nf4` holds it, outside a run: what a LoRA checkpoint upon it was
// trained with, and what merging its adapters starts from.
#pragma once
#include <vector>

#include "wmtp/models/model_source.h"

namespace wmtp::models {

// The parameters of `units` that are marked `quantized`, but for those that the files of `source`
// hold in NF4: these have no other form.
Unquantized unquantized_weights(const ModelSource& source,
                                const std::vector<layout::UnitSpec>& units);

struct QuantizedBase {
  parallel::ReadParam fill;
  parallel::ReadNf4 stored_nf4;                  // empty: no parameter is in NF4
  std::set<std::string, std::less<>> nf4_names;  // those that are
};

// As the files of `source` have it.
QuantizedBase stored_base(const ModelSource& source, const std::vector<layout::UnitSpec>& units);

// `source` with the marked parameters of `units` as a run has them (parallel/quantized_shard.h): as
// stored where the files hold NF4, else rounded to `dtype` and quantised. `fill` takes them back
// without rounding again. A part of a parameter costs the work of the whole, of which the last one
// is kept. Error data for a weight that is not finite. THREADS: any.
QuantizedBase quantized_base(const ModelSource& source, const std::vector<layout::UnitSpec>& units,
                             DType dtype);

}  // namespace wmtp::models
