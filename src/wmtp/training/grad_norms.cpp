#include "wmtp/training/grad_norms.h"

#include <ATen/ops/cumsum.h>
#include <ATen/ops/zeros.h>

#include "wmtp/kernels/grad_norm.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::training {
namespace {

c10::Device device_of_grads(const parallel::ParallelOptions& options) {
  return options.offloads() ? c10::Device(c10::kCPU) : options.device;
}

}  // namespace

GradNorms::GradNorms(parallel::Runtime& runtime, bool beside)
    : runtime_(runtime),
      side_(beside ? device_of_grads(runtime.options()) : c10::Device(c10::kCPU)),
      squared_norms_U_(at::zeros(
          {static_cast<std::int64_t>(runtime.states().size())},
          at::TensorOptions().dtype(kFloat64).device(device_of_grads(runtime.options())))) {}

// A model may have several steps (bench step --beside-uniform): the one that runs is told.
void GradNorms::begin_step() {
  runtime_.tell_complete([this](UnitId unit) { add(unit); });
  squared_norms_U_.zero_();
}

// Replicas of a shard count once: the others' norms are not needed.
void GradNorms::add(UnitId unit) {
  if (!runtime_.counts_once()) return;
  const ProfileScope scope("gradient norm");
  side_.run([&] {
    kernels::add_squared_norm(runtime_.grad(unit), squared_norms_U_.select(0, unit.value()));
  });
}

Tensor GradNorms::total() {
  side_.set(added_);
  added_.wait();
  return at::cumsum(squared_norms_U_, 0).select(0, -1);
}

}  // namespace wmtp::training
