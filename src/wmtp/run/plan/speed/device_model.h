// What a device does of a training step: one row for each GPU that `wmtp plan` knows, and the CPU.
// The H200's rates are measured ones (benchmarks/gpu.md); of other GPUs only the published peaks
// are known, and the parts of their peaks that they reach are taken to be the H200's. Float8 and
// 8-bit moments were measured on no GPU: what needs them is estimated everywhere.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/run/plan/speed/rate_curve.h"
#include "wmtp/run/plan/step_timeline.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {

// What moves memory and computes little. A rate counts the bytes that must move.
enum class Pass {
  norm,  // with the residual sum
  norm_backward,
  rope,
  rope_backward,
  qk_rope,  // with the norm of q and k
  qk_rope_backward,
  swiglu,
  swiglu_backward,
  cross_entropy,  // over the logits, both ways
  copy,           // and zeroing, casts, gathers of rows
  grad_norm,
  adamw,
  adamw_rounded,  // bf16 masters and moments
  adamw_8bit,     // bf16 masters, moments in 8 bits
  count_
};
inline constexpr std::size_t kNumPasses = static_cast<std::size_t>(Pass::count_);

struct DeviceModel {
  std::string name;               // "h200", "cpu"
  std::string title;              // "NVIDIA H200"
  double memory_bytes = 0;        // of one device; 0: the machine's is asked for (cpu)
  double peak_flops = 0;          // dense, of the compute dtype: bf16 on a GPU, fp32 on a CPU
  double peak_float8_flops = 0;   // the same in float8; 0: the device is refused it
  double memory_bytes_per_s = 0;  // at best
  int major = 0, minor = 0;       // compute capability

  RateCurve products;                        // flops/s of a matrix product, by its least extent
  RateCurve full_products;                   // the same in fp32
  RateCurve float8_products;                 // the same in float8
  RateCurve attention_forward;               // flops/s (flops.h), by the span
  RateCurve attention_backward;              // the same; the backward counts twice the forward
  std::array<RateCurve, kNumPasses> passes;  // bytes/s, by the bytes of a call
  double call_s = 0;                         // of an operation, on top of what its rates say
  double host_call_s = 0;  // of the host for an operation; a device that waits for it is idle
  RateCurve busy;          // the part of a step that its operations fill, by the model's width

  // cpu_offload: moments and masters in host memory, both ways over the bus, updated by 16 cores.
  double offload_s_per_parameter = 0;

  LinkModel in_node, between_nodes;  // a ring's, of one rank
  int devices_per_node = 8;
  bool measured = false;  // false: shown as `estimated`
  std::string basis;      // where the rates are from, with the numbers

  const RateCurve& pass(Pass which) const { return passes[static_cast<std::size_t>(which)]; }
  bool is_cpu() const { return name == "cpu"; }
  // As RunContext::named_gpu has it. REQUIRES a GPU.
  GpuInfo gpu() const;
};

std::vector<std::string> device_names();
// Error config with the nearest name where there is no such device. `cpu`: rates of a core like
// those of benchmarks/kernels.md, estimated; calibrate_cpu measures them.
const DeviceModel& device_model(std::string_view name);
// Of a GPU as its driver calls it ("NVIDIA A100-SXM4-80GB"); null for one that is not known.
const DeviceModel* find_device(std::string_view driver_name);

}  // namespace wmtp::run
