// Whether products take algorithms that are timed in the run (runtime.gemm_choice).
#pragma once
#include <string_view>

#include "wmtp/config/runtime.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::run {

// Error config where a device, or the dtype that is computed with, has no such products; `key`
// names who asked.
void check_gemm_choice(config::GemmChoice choice, std::string_view key, c10::Device device,
                       DType param_dtype);
// Says of it what nobody has seen yet.
void tell_gemm_choice(config::GemmChoice choice);

}  // namespace wmtp::run
