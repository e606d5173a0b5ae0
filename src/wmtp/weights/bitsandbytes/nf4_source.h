// Weights that bitsandbytes stored in 4 bits, as ordinary tensors. Of such a weight a file holds
//   <name>                                  uint8 [ceil(elements / 2), 1]
//   <name>.absmax                           uint8 [blocks], or fp32 without the second level
//   <name>.quant_map                        fp32 [16]: the NF4 table
//   <name>.nested_absmax, .nested_quant_map fp32 [groups], [256]: with the second level
//   <name>.quant_state.bitsandbytes__nf4    uint8: JSON (quant_state.h)
// kernels/nf4.h says what the numbers mean.
#pragma once
#include <memory>

#include "wmtp/weights/weight_source.h"

namespace wmtp::weights {

// `inner` with each of those weights as one tensor of its own shape and dtype, read as
// bitsandbytes gives it back (table * scale, rounded once to that dtype) and, through read_nf4, as
// it is stored. `inner` itself where nothing is stored so. Reads the states and tables. Error data
// for what is missing, of another size or dtype, or another table; Error config for what
// bitsandbytes can write and wmtp does not read (fp4, another quant_storage; quant_state.h). A
// scale that is not finite is Error data when it is read.
std::unique_ptr<WeightSource> decode_bitsandbytes(std::unique_ptr<WeightSource> inner);

}  // namespace wmtp::weights
