#include <cmath>

#include "fuzz/fuzz.h"
#include "wmtp/weights/bitsandbytes/quant_state.h"

WMTP_FUZZ_TARGET(quant_state) {
  using namespace wmtp;
  const auto state = weights::parse_quant_state(fuzz::text_of(bytes), "state");
  fuzz::require(state.shape.size() == 2 && state.shape[0] > 0 && state.shape[1] > 0 &&
                    state.shape[0] <= (std::int64_t{1} << 48) / state.shape[1],
                "a shape that no matrix has");
  fuzz::require(2 * state.num_bytes() >= state.numel() &&
                    64 * state.num_blocks() >= state.numel() &&
                    256 * state.num_groups() >= state.num_blocks(),
                "too few bytes or scales for the elements");
  fuzz::require(!state.nested_offset || std::isfinite(*state.nested_offset), "an infinite offset");
}
