// Operators for which the host waits until the GPU has come to them, and those that no graph holds.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace wmtp::emulated {

void forbid_host_waits(bool forbidden);
// An operator that waits, with its arguments at the end of the stack, is an error while waits are
// forbidden or work is recorded. A recording refuses every copy between host and GPU: at a replay
// what lies in that host memory is another's.
void check_host_waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace wmtp::emulated
