// The codes of a moment as the vectorised bodies find them: what CodeSearch says, in one step.
#pragma once
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/kernels/cpu/simd/optimizer_ranges.h"

namespace wmtp::kernels::cpu {

const CodeTable& code_table(Moment moment);

}  // namespace wmtp::kernels::cpu
