// Whose tokens are weighted: N packed tokens, D documents. The struct is the kernels' own.
#pragma once
#include "wmtp/kernels/responses.h"

namespace wmtp::weighting {

using Documents = kernels::Responses;

}  // namespace wmtp::weighting
