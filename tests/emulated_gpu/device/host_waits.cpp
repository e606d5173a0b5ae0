#include "emulated_gpu/device/host_waits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "wmtp/tensor/tensor.h"

namespace wmtp::emulated {
namespace {

std::atomic<bool> forbidden_now = false;
thread_local bool replayed_now = false;

// The host has to know their numbers, or how many numbers they return.
constexpr std::array<std::string_view, 6> kWaiting{"aten::_local_scalar_dense",
                                                   "aten::equal",
                                                   "aten::masked_select",
                                                   "aten::nonzero",
                                                   "aten::_unique2",
                                                   "aten::unique_consecutive"};

const c10::IValue& argument(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                            std::size_t index) {
  return stack[stack.size() - op.schema().arguments().size() + index];
}

// A copy between host and GPU.
bool is_crossing_copy(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return op.schema().name() == "aten::copy_" &&
         argument(op, stack, 0).toTensor().device() != argument(op, stack, 1).toTensor().device();
}

// One that was not asked to go on beside the host.
bool is_waiting_copy(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  return is_crossing_copy(op, stack) && !argument(op, stack, 2).toBool();
}

}  // namespace

void forbid_host_waits(bool forbidden) {
  forbidden_now = forbidden;
}

Replaying::Replaying() {
  replayed_now = true;
}
Replaying::~Replaying() {
  replayed_now = false;
}

void check_host_waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  TORCH_CHECK(!replayed_now || !is_crossing_copy(op, stack),
              "a graph would copy from where something of the host lay when it was recorded");
  if (!forbidden_now) return;
  const std::string& name = op.schema().name();
  TORCH_CHECK(!is_waiting_copy(op, stack) && std::ranges::find(kWaiting, name) == kWaiting.end(),
              "the host waits for ", name, ", which is forbidden here");
}

}  // namespace wmtp::emulated
