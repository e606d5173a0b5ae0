// Operators that have a body of their own.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/tensor/tensor.h"

namespace wmtp::emulated {

// Calls body(twins) with the host twins of `on_gpu`, behind what the current stream was given; it
// returns nothing and writes to twins alone. While work is recorded the call is noted.
using TwinBody = std::function<void(const std::vector<Tensor>& twins)>;
void on_twins(const std::vector<Tensor>& on_gpu, const TwinBody& body);

}  // namespace wmtp::emulated
