#include "emulated_gpu/device/host_waits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "emulated_gpu/device/recording.h"

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

// Between host and GPU; `waits`: one that was not asked to go on beside the host.
struct Copy {
  bool between = false, waits = false;
};

Copy copy_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op.schema().name() != "aten::copy_") return {};
  const auto argument = stack.end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Tensor &to = argument[0].toTensor(), &from = argument[1].toTensor();
  const bool between = to.device() != from.device();
  return {between, between && !argument[2].toBool()};
}

}  // namespace

void forbid_host_waits(bool forbidden) {
  forbidden_now = forbidden;
}

void check_host_waits(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const bool recorded = recorder() != nullptr;
  if (!forbidden_now && !recorded) return;
  const std::string& name = op.schema().name();
  const Copy copy = copy_of(op, stack);
  if (recorded && copy.between) refuse_while_recording("a copy between host and GPU");
  TORCH_CHECK(!copy.waits && std::ranges::find(kWaiting, name) == kWaiting.end(),
              "the host waits for ", name, ", which is forbidden here");
}

}  // namespace wmtp::emulated
