// LibTorch's CUDA device without CUDA: an operator that is called with tensors of the emulated GPU
// runs on their host twins, and what it returns is named back. Views stay views and outputs are
// written in place, so the memory of a run takes the same course as on a real GPU. While work is
// recorded an operator is tried on zeros, which shows what it returns and how large its outputs
// become; memory stays as it is, and the operator is noted (recording.h).
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "emulated_gpu/device/host_waits.h"
#include "emulated_gpu/device/memory.h"
#include "emulated_gpu/device/recording.h"

namespace wmtp::emulated {
namespace {

using c10::IValue;
using torch::jit::Stack;

// What stands for a tensor of the GPU: its bytes, its bytes as a graph names them, or others.
enum class Twins { plain, recorded, zeros };

constexpr const char* kReadsHost = "host memory is read while work is recorded";

// A kernel takes a number of the host by value, and LibTorch copies more to the GPU.
Tensor by_value(const Tensor& on_host) {
  if (!on_host.defined() || on_host.unsafeGetTensorImpl()->is_wrapped_number()) return on_host;
  TORCH_CHECK(on_host.dim() == 0, kReadsHost);
  return on_host.clone();
}

// The tensors of one call under both names.
class Call {
 public:
  explicit Call(Twins kind) : kind_(kind) {}

  IValue to_host(const IValue& value) {
    if (value.isTensor()) return host_of(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(host_of(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
        const bool on_host = tensor && tensor->defined() && !tensor->is_cuda();
        TORCH_CHECK(kind_ != Twins::recorded || !on_host, kReadsHost);  // an index, which is copied
        list.push_back(tensor ? std::optional<Tensor>(host_of(*tensor)) : std::nullopt);
      }
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
    for (const Names& names : names_)
      if (names.gpu.sizes() != names.host.sizes()) follow(names.gpu, names.host);
  }

  IValue to_gpu(const IValue& value) const {
    if (value.isTensor()) return gpu_of(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(gpu_of(tensor));
    return list;
  }

 private:
  struct Names {
    Tensor gpu, host;
  };

  Tensor twin_of(const Tensor& tensor) const {
    if (kind_ == Twins::plain) return host_twin(tensor);
    if (kind_ == Twins::recorded) return recorded_twin(tensor);
    const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
    return host_view(at::zeros({bytes}, at::kByte).storage(), tensor);
  }

  Tensor host_of(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda())
      return kind_ == Twins::recorded ? by_value(tensor) : tensor;
    for (const Names& names : names_)
      if (names.gpu.is_same(tensor)) return names.host;
    // Two views of one storage have twins with one storage, as operators ask whether they overlap.
    for (const Names& names : names_) {
      if (!names.gpu.storage().is_alias_of(tensor.storage())) continue;
      names_.push_back({tensor, host_view(names.host.storage(), tensor)});
      return names_.back().host;
    }
    names_.push_back({tensor, twin_of(tensor)});
    return names_.back().host;
  }

  Tensor gpu_of(const Tensor& tensor) const {
    if (!tensor.defined() || !tensor.is_cpu()) return tensor;
    for (const Names& names : names_)
      if (names.host.is_same(tensor)) return names.gpu;
    for (const Names& names : names_)
      if (names.host.storage().is_alias_of(tensor.storage()))
        return gpu_view(names.gpu.storage(), tensor);
    return wanted_.is_cuda() ? adopt(tensor) : tensor;
  }

  Twins kind_;
  std::vector<Names> names_;
  c10::Device wanted_ = gpu();
};

bool is_empty(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return name == "aten::empty" || name == "aten::empty_strided";
}

// Neither a new tensor nor a view reads what is in memory.
bool reads_memory(const c10::OperatorHandle& op) {
  if (is_empty(op)) return false;
  const std::vector<c10::Argument>& returns = op.schema().returns();
  return returns.empty() || !std::ranges::all_of(returns, [](const c10::Argument& returned) {
           return returned.alias_info() != nullptr && !returned.alias_info()->isWrite();
         });
}

Stack last(const Stack& stack, std::size_t count) {
  return Stack(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
}

void run_now(const c10::OperatorHandle& op, Stack* stack, Twins kind = Twins::plain) {
  Call call(kind);
  const std::size_t num_arguments = op.schema().arguments().size();
  for (std::size_t i = stack->size() - num_arguments; i < stack->size(); ++i)
    (*stack)[i] = call.to_host((*stack)[i]);
  op.callBoxed(stack);
  if (is_empty(op)) {
    const c10::Storage& storage = stack->back().toTensor().storage();
    poison(storage.mutable_data(), storage.nbytes());
  }
  call.follow_outputs();
  const std::size_t num_returns = op.schema().returns().size();
  for (std::size_t i = stack->size() - num_returns; i < stack->size(); ++i)
    (*stack)[i] = call.to_gpu((*stack)[i]);
}

// What an operator has written already is its own output.
void write(const IValue& to, const IValue& from) {
  if (to.isTensorList()) {
    const std::vector<Tensor> outputs = to.toTensorVector(), results = from.toTensorVector();
    for (std::size_t i = 0; i < outputs.size(); ++i) write(outputs[i], results.at(i));
  } else if (to.isTensor() && to.toTensor().defined() && !to.toTensor().is_same(from.toTensor())) {
    TORCH_CHECK(to.toTensor().sizes() == from.toTensor().sizes(), "a replay has other sizes");
    to.toTensor().copy_(from.toTensor());
  }
}

// The operator again on the same memory, with its results where those of the recording lie.
std::function<void()> again(const c10::OperatorHandle& op, const Stack& arguments,
                            const Stack& results) {
  Call call(Twins::recorded);
  Stack on_host, written;
  for (const IValue& argument : arguments) on_host.push_back(call.to_host(argument));
  for (const IValue& result : results) {
    TORCH_CHECK(!result.isTensor() || !result.toTensor().is_cpu(), op.schema().name(),
                " returns numbers to the host while work is recorded");
    written.push_back(call.to_host(result));
  }
  return [op, on_host, written] {
    Stack stack = on_host;
    op.callBoxed(&stack);
    for (std::size_t i = 0; i < written.size(); ++i) write(written[i], stack.at(i));
  };
}

void note(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK(!op.hasTag(at::Tag::inplace_view) && !op.hasTag(at::Tag::nondeterministic_seeded),
              op.schema().name(), " while work is recorded");
  if (!reads_memory(op)) run_now(op, stack);
  if (is_empty(op)) {
    const Tensor fresh = recorded_twin(stack->back().toTensor());
    give(current_stream(),
         [fresh] { poison(fresh.storage().mutable_data(), fresh.storage().nbytes()); });
  } else if (reads_memory(op)) {
    const Stack arguments = last(*stack, op.schema().arguments().size());
    run_now(op, stack, Twins::zeros);
    give(current_stream(), again(op, arguments, last(*stack, op.schema().returns().size())));
  }
}

// Copies wait in their stream, as kernels do; other operators have it do all it was given first.
void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  check_host_waits(op, *stack);
  if (recorder() != nullptr) return note(op, stack);
  const cudaStream_t stream = current_stream();
  if (stream != nullptr && op.schema().name() == "aten::copy_") {
    Stack arguments = last(*stack, op.schema().arguments().size());
    const auto first = stack->end() - std::ssize(arguments);
    give(stream, [op, later = std::move(arguments)]() mutable { run_now(op, &later); });
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
