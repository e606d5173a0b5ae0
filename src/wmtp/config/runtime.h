// Sections `distributed` and `runtime`. Initial values are the built-in defaults
// (text in ${} is interpolated on loading); meanings, ranges and resume classes stand in
// table_runtime.cpp.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/config/enum_names.h"
#include "wmtp/config/experiment.h"

namespace wmtp::config {

enum class ShardingStrategy { full_shard, shard_grad_op, no_shard, hybrid_shard };
WMTP_ENUM_NAMES(ShardingStrategy, "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD");
enum class ReduceDType { fp32, bf16 };
WMTP_ENUM_NAMES(ReduceDType, "fp32", "bf16");
enum class Recompute { none, light, block, automatic };
WMTP_ENUM_NAMES(Recompute, "none", "light", "block", "auto");
enum class Backend { automatic, nccl, gloo };
WMTP_ENUM_NAMES(Backend, "auto", "nccl", "gloo");
enum class DeviceChoice { automatic, cuda, mps, cpu };
WMTP_ENUM_NAMES(DeviceChoice, "auto", "cuda", "mps", "cpu");
enum class AutoSwitch { automatic, on, off };
WMTP_ENUM_NAMES(AutoSwitch, "auto", "on", "off");
enum class AttentionKernel { automatic, cudnn, flash, reference };
WMTP_ENUM_NAMES(AttentionKernel, "auto", "cudnn", "flash", "reference");
enum class GemmChoice { library, measured };
WMTP_ENUM_NAMES(GemmChoice, "library", "measured");
enum class SpikeAction { warn, stop, off };
WMTP_ENUM_NAMES(SpikeAction, "warn", "stop", "off");

struct Prefetch {
  std::int64_t forward = 1, backward = 1;
};

struct Fsdp {
  ShardingStrategy sharding_strategy = ShardingStrategy::full_shard;
  std::optional<std::int64_t> shard_group_size;  // absent: the ranks of a node
  bool mixed_precision = true;
  std::optional<DType> param_dtype;  // see compute_dtypes() in derived.h
  std::optional<ReduceDType> reduce_dtype;
  bool cpu_offload = false;
  Recompute activation_checkpointing = Recompute::automatic;
  Prefetch prefetch;
  bool no_sync = false;
};

struct Distributed {
  Fsdp fsdp;
  Backend backend = Backend::automatic;
  bool allow_shared_gpu = false;
  std::optional<std::string> interface;
  std::optional<std::int64_t> port;
  std::int64_t rendezvous_timeout_s = 600, agreement_timeout_s = 120;
  std::int64_t first_step_timeout_s = 600, step_timeout_s = 60;
  std::int64_t state_check_every = 500;
};

struct LossSpike {
  SpikeAction action = SpikeAction::warn;
  double z = 8;
  std::int64_t window = 200;
};

struct Runtime {
  DeviceChoice device = DeviceChoice::automatic;
  std::filesystem::path run_dir = "runs/${experiment.name}";
  std::filesystem::path cache_dir = "${env:XDG_CACHE_HOME:-~/.cache}/wmtp";
  std::int64_t seed = 42;
  std::int64_t threads = 0;
  bool deterministic = false;
  AutoSwitch cuda_graphs = AutoSwitch::automatic;
  AttentionKernel attention = AttentionKernel::automatic;
  GemmChoice gemm_choice = GemmChoice::library;
  std::int64_t loss_chunk_rows = 0;
  std::optional<double> memory_limit_gib, peak_tflops;
  std::optional<std::int64_t> stop_before_end_s;
  std::filesystem::path stop_file = "${runtime.run_dir}/STOP";
  std::int64_t grace_s = 90;
  LossSpike loss_spike;
};

}  // namespace wmtp::config
