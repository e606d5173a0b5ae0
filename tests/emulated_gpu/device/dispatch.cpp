// LibTorch's CUDA device without CUDA: an operator that is called with tensors of the emulated GPU
// runs on their host twins, and what it returns is named back. Views stay views and outputs are
// written in place, so the memory of a run takes the same course as on a real GPU.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "emulated_gpu/device/host_waits.h"
#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/streams.h"

namespace wmtp::emulated {
namespace {

using c10::IValue;
using torch::jit::Stack;

// The tensors of one call under both names.
class Call {
 public:
  IValue to_host(const IValue& value) {
    if (value.isTensor()) return host_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(host_of(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional<Tensor>(host_of(*tensor)) : std::nullopt);
      return list;
    }
    if (value.isDevice()) {
      wanted_ = value.toDevice();
      return c10::Device(c10::DeviceType::CPU);
    }
    return value;
  }

  // Outputs that were handed in empty have been resized.
  void follow_outputs() const {
    for (const Twins& twins : twins_)
      if (twins.gpu.sizes() != twins.host.sizes()) follow(twins.gpu, twins.host);
  }

  IValue to_gpu(const IValue& value) const {
    if (value.isTensor()) return gpu_of(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(gpu_of(tensor));
    return list;
  }

 private:
  struct Twins {
    Tensor gpu, host;
  };

  Tensor host_of(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    for (const Twins& twins : twins_)
      if (twins.gpu.is_same(tensor)) return twins.host;
    // Two views of one storage have twins with one storage, as operators ask whether they overlap.
    for (const Twins& twins : twins_) {
      if (!twins.gpu.storage().is_alias_of(tensor.storage())) continue;
      twins_.push_back({tensor, host_view(twins.host.storage(), tensor)});
      return twins_.back().host;
    }
    twins_.push_back({tensor, host_twin(tensor)});
    return twins_.back().host;
  }

  Tensor gpu_of(const Tensor& tensor) const {
    if (!tensor.defined() || !tensor.is_cpu()) return tensor;
    for (const Twins& twins : twins_)
      if (twins.host.is_same(tensor)) return twins.gpu;
    for (const Twins& twins : twins_)
      if (twins.host.storage().is_alias_of(tensor.storage()))
        return gpu_view(twins.gpu.storage(), tensor);
    return wanted_.is_cuda() ? adopt(tensor) : tensor;
  }

  std::vector<Twins> twins_;
  c10::Device wanted_ = gpu();
};

void poison_fresh(const c10::OperatorHandle& op, const Stack& stack) {
  const std::string& name = op.schema().name();
  if (name != "aten::empty" && name != "aten::empty_strided") return;
  const c10::Storage& storage = stack.back().toTensor().storage();
  poison(storage.mutable_data(), storage.nbytes());
}

// Neither a new tensor nor a view reads what is in memory.
bool reads_memory(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  if (name == "aten::empty" || name == "aten::empty_strided") return false;
  const std::vector<c10::Argument>& returns = op.schema().returns();
  return !std::ranges::all_of(returns, [](const c10::Argument& returned) {
    return returned.alias_info() != nullptr && !returned.alias_info()->isWrite();
  });
}

void run_now(const c10::OperatorHandle& op, Stack* stack) {
  Call call;
  const std::size_t num_arguments = op.schema().arguments().size();
  for (std::size_t i = stack->size() - num_arguments; i < stack->size(); ++i)
    (*stack)[i] = call.to_host((*stack)[i]);
  op.callBoxed(stack);
  poison_fresh(op, *stack);
  call.follow_outputs();
  const std::size_t num_returns = op.schema().returns().size();
  for (std::size_t i = stack->size() - num_returns; i < stack->size(); ++i)
    (*stack)[i] = call.to_gpu((*stack)[i]);
}

// Copies wait in their stream, as kernels do; other operators have it do all it was given first.
void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  check_host_waits(op, *stack);
  const cudaStream_t stream = current_stream();
  if (stream != nullptr && op.schema().name() == "aten::copy_") {
    const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
    give(stream, [op, later = Stack(first, stack->end())]() mutable { run_now(op, &later); });
    stack->erase(first + 1, stack->end());  // it returns what it writes to
    return;
  }
  if (reads_memory(op)) do_all(stream);
  run_now(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

// Its composite body asks for a copy kernel of the device.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace wmtp::emulated
