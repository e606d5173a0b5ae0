// How a model is spread over ranks.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::parallel {

// NO_SHARD: everything replicated, gradients all-reduced. SHARD_GRAD_OP: parameters gathered once a
// step, gradients and optimizer sharded. FULL_SHARD: parameters gathered unit by unit, in forward
// and again in backward. HYBRID_SHARD: FULL_SHARD within groups of contiguous ranks, replicated
// across them; one group is FULL_SHARD, groups of one rank are NO_SHARD.
enum class Strategy { full_shard, shard_grad_op, no_shard, hybrid_shard };

std::string_view name_of(Strategy strategy);         // NO_SHARD, ...
Strategy strategy_from_name(std::string_view name);  // any case; else Error config

struct ParallelOptions {
  Strategy strategy = Strategy::full_shard;
  int shard_group_size = 1;       // ranks of a group of HYBRID_SHARD; divides the world
  DType master_dtype = kFloat32;  // of trained weights as the optimizer sees them: fp32, bf16
  // fp32 masters lie in planes where bf16 is computed with; absent: as the recipe of the optimizer
  // has it (training::parallel_of), and without one they do not.
  std::optional<bool> split_masters = {};
  DType param_dtype = kFloat32;   // gather and compute
  DType reduce_dtype = kFloat32;  // gradients on the wire
  // Frozen weights between uses; absent: param_dtype. Units of full precision keep theirs. What is
  // quantised is rounded to it before; absent: not at all, whatever is computed with.
  std::optional<DType> frozen_dtype = {};
  std::int64_t trained_alignment = 128;  // where the shards of trained weights are cut
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  bool cpu_offload = false;                         // shards and gradients in (pinned) host memory
  int prefetch_forward = 1, prefetch_backward = 1;  // units ahead
  // Off: a step finds nothing gathered, as one that is replayed has to; on, what it acquires first
  // was gathered behind the update before it.
  bool gathers_early = true;
  bool no_sync = false;  // unsharded gradients during accumulation, one reduction a step
  // A gradient has memory from where its unit is opened until its update was waited for, in steps
  // of one micro-batch. Off: gradients stand, as accumulation needs them, and as is faster on a
  // CPU, where memory that comes back is fresh pages.
  bool frees_grads = false;

  // Whether the masters of a unit lie in two planes (master.h), but of one that is computed with in
  // float8.
  bool splits(bool full_precision) const {
    return split_masters.value_or(false) && !full_precision && master_dtype == kFloat32 &&
           param_dtype == kBFloat16;
  }
  // On a CPU everything is in host memory anyway.
  bool offloads() const { return cpu_offload && device.is_cuda(); }
  // Frozen weights too are only whole while they are used.
  bool shards_frozen() const {
    return strategy == Strategy::full_shard || strategy == Strategy::hybrid_shard;
  }
};

// A rank's place among shards and replicas: shard_world contiguous ranks hold everything together,
// and every such group is a replica of the others. NO_SHARD is sharding over one.
struct Placement {
  int rank = 0, world = 1;
  int shard_world = 1;

  int shard_rank() const { return rank % shard_world; }
  int replica() const { return rank / shard_world; }
  int num_replicas() const { return world / shard_world; }
};

// REQUIRES of HYBRID_SHARD: the groups' size divides the world.
Placement placement_of(const ParallelOptions& options, int rank, int world);

}  // namespace wmtp::parallel
