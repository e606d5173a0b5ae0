// How the runtime is given weights, by parameter and range.
#pragma once
#include <functional>
#include <optional>

#include "wmtp/kernels/nf4.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::parallel {

// Elements [begin, begin + out.numel()) of a parameter into a 1-D fp32 (fp64) CPU tensor: read from
// a file or drawn.
using ReadParam =
    std::function<void(const layout::ParamSpec&, std::int64_t begin, const Tensor& out)>;

// Elements [begin, begin + count) of a parameter as a file holds them in NF4, on the CPU, the
// scales counted from the parameter's first block; nothing where it holds numbers. REQUIRES
// multiples of 64. The answer is the same for every range of a parameter.
using ReadNf4 = std::function<std::optional<kernels::Nf4Weights>(
    const layout::ParamSpec&, std::int64_t begin, std::int64_t count)>;

}  // namespace wmtp::parallel
