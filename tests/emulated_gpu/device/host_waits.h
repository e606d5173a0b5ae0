// Operators for which the host waits until the GPU has come to them, and those that no graph holds.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace wmtp::emulated {

void forbid_host_waits(bool forbidden);
// While it lives, a copy of its thread between host and GPU is an error: a graph's would read the
// host's memory as it lay when the graph was recorded.
struct Replaying {
  Replaying();
  ~Replaying();
};
// An operator that waits, with its arguments at the end of the stack, is an error while waits are
// forbidden.
void check_host_waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace wmtp::emulated
