// Elements of a saved tensor as a tensor.
#pragma once
#include <cstdint>
#include <string>

#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::models {

// Elements [begin, begin + out.numel()) in row order, converted to the dtype of `out`, which may
// lie on any device. Error config for a tensor that is not there; else as
// checkpoint::CheckpointReader.
void read_elements(checkpoint::CheckpointReader& reader, const std::string& name,
                   std::int64_t begin, const Tensor& out);

}  // namespace wmtp::models
