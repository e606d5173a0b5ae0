// How a model is spread over ranks.
#pragma once
#include <optional>
#include <string_view>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::parallel {

// NO_SHARD: everything replicated, gradients all-reduced. SHARD_GRAD_OP: parameters gathered once a
// step, gradients and optimizer sharded. FULL_SHARD: parameters gathered unit by unit, in forward
// and again in backward.
enum class Strategy { full_shard, shard_grad_op, no_shard };

std::string_view name_of(Strategy strategy);         // NO_SHARD, ...
Strategy strategy_from_name(std::string_view name);  // any case; else Error config

struct ParallelOptions {
  Strategy strategy = Strategy::full_shard;
  DType master_dtype = kFloat32;  // of trained weights as the optimizer sees them: fp32, bf16
  DType param_dtype = kFloat32;   // gather and compute
  DType reduce_dtype = kFloat32;  // gradients on the wire
  // Frozen weights between uses; absent: param_dtype. Units of full precision keep theirs.
  std::optional<DType> frozen_dtype = {};
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  bool cpu_offload = false;                         // shards and gradients in (pinned) host memory
  int prefetch_forward = 1, prefetch_backward = 1;  // units ahead
  bool no_sync = false;  // unsharded gradients during accumulation, one reduction a step

  // On a CPU everything is in host memory anyway.
  bool offloads() const { return cpu_offload && device.is_cuda(); }
};

}  // namespace wmtp::parallel
