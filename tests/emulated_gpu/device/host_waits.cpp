#include "emulated_gpu/device/host_waits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "wmtp/tensor/tensor.h"

namespace wmtp::emulated {
namespace {

std::atomic<bool> forbidden_now = false;

// The host has to know their numbers, or how many numbers they return.
constexpr std::array<std::string_view, 6> kWaiting{"aten::_local_scalar_dense",
                                                   "aten::equal",
                                                   "aten::masked_select",
                                                   "aten::nonzero",
                                                   "aten::_unique2",
                                                   "aten::unique_consecutive"};

// A copy between host and GPU that was not asked to go on beside the host.
bool is_waiting_copy(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op.schema().name() != "aten::copy_") return false;
  const auto argument = stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Tensor &to = argument[0].toTensor(), &from = argument[1].toTensor();
  return to.device() != from.device() && !argument[2].toBool();
}

}  // namespace

void forbid_host_waits(bool forbidden) {
  forbidden_now = forbidden;
}

void check_host_waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!forbidden_now) return;
  const std::string& name = op.schema().name();
  TORCH_CHECK(!is_waiting_copy(op, stack) && std::ranges::find(kWaiting, name) == kWaiting.end(),
              "the host waits for ", name, ", which is forbidden here");
}

}  // namespace wmtp::emulated
