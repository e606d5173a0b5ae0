// Rows of `distributed` and `runtime`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

void add_fsdp_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(distributed.fsdp.sharding_strategy), "What is sharded over the ranks")
      .free()
      .in_any_case();
  add(rows, WMTP_KEY(distributed.fsdp.shard_group_size),
      "Ranks of a group of HYBRID_SHARD, contiguous; divides the ranks of the run; null = the "
      "ranks "
      "of a node")
      .free()
      .between(1, 65536);
  add(rows, WMTP_KEY(distributed.fsdp.mixed_precision),
      "true = param_dtype bf16, reduce_dtype fp32; false = fp32 both; on CPU compute is fp32 "
      "whatever is set");
  add(rows, WMTP_KEY(distributed.fsdp.param_dtype),
      "Gather and compute; null = by mixed_precision; fp16 brings dynamic loss scaling")
      .with_aliases({{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}});
  add(rows, WMTP_KEY(distributed.fsdp.reduce_dtype),
      "Gradient reduction; null = by mixed_precision")
      .with_aliases({{"bfloat16", "bf16"}, {"float32", "fp32"}});
  add(rows, WMTP_KEY(distributed.fsdp.cpu_offload),
      "Shards, gradients and optimizer in pinned host memory")
      .free();
  add(rows, WMTP_KEY(distributed.fsdp.activation_checkpointing),
      "What backward computes again; auto = the least that fits")
      .free()
      .with_aliases({{"true", "block"}, {"false", "none"}});
  add(rows, WMTP_KEY(distributed.fsdp.prefetch.forward), "Units gathered ahead in forward")
      .free()
      .between(0, 8);
  add(rows, WMTP_KEY(distributed.fsdp.prefetch.backward), "Units gathered ahead in backward")
      .free()
      .between(0, 8);
  add(rows, WMTP_KEY(distributed.fsdp.no_sync), "Keep unsharded gradients during accumulation")
      .free();
}

void add_distributed_rows(std::vector<Row>& rows) {
  add_fsdp_rows(rows);
  add(rows, WMTP_KEY(distributed.backend), "auto = nccl on GPUs of their own, else gloo").host();
  add(rows, WMTP_KEY(distributed.allow_shared_gpu), "Several ranks may share one GPU (gloo)")
      .host();
  add(rows, WMTP_KEY(distributed.interface), "Network interface; null = by the route to rank 0")
      .host();
  add(rows, WMTP_KEY(distributed.port), "Port of the rendezvous; null = as the launcher says")
      .host()
      .between(1, 65535);
  add(rows, WMTP_KEY(distributed.rendezvous_timeout_s), "Seconds to wait for all ranks")
      .host()
      .between(1, 86400);
  add(rows, WMTP_KEY(distributed.agreement_timeout_s), "Seconds for the ranks to compare notes")
      .host()
      .between(1, 86400);
  add(rows, WMTP_KEY(distributed.first_step_timeout_s), "Seconds the first step may take")
      .host()
      .between(1, 86400);
  add(rows, WMTP_KEY(distributed.step_timeout_s), "Seconds a later step may take")
      .host()
      .between(1, 86400);
  add(rows, WMTP_KEY(distributed.state_check_every),
      "Steps between comparisons of replicated state; 0 = off")
      .free()
      .at_least(0);
}

}  // namespace

void add_runtime_rows(std::vector<Row>& rows) {
  add_distributed_rows(rows);
  add(rows, WMTP_KEY(runtime.device), "auto = cuda where there is a GPU, else cpu")
      .host()
      .unavailable({"mps"});
  add(rows, WMTP_KEY(runtime.run_dir), "Everything a run writes").host();
  add(rows, WMTP_KEY(runtime.cache_dir), "Indexes, token caches, signals").host().per_rank();
  add(rows, WMTP_KEY(runtime.seed), "Weights, dropout, controls").at_least(0);
  add(rows, WMTP_KEY(runtime.threads), "CPU threads per rank; 0 = cores / ranks")
      .host()
      .per_rank()
      .between(0, 1024);
  add(rows, WMTP_KEY(runtime.deterministic),
      "Same bits on every rerun and resume with the same ranks and device; needs runtime.threads");
  add(rows, WMTP_KEY(runtime.cuda_graphs),
      "on: a step whose shapes came before is replayed as a CUDA graph; on GPUs; auto = off; "
      "never run on a GPU")
      .host();
  add(rows, WMTP_KEY(runtime.attention),
      "Attention kernel; flash and cudnn on a GPU: bf16 or fp16; cudnn: GPUs only, never run over "
      "packed rows; reference: CPUs only, slow")
      .host();
  add(rows, WMTP_KEY(runtime.gemm_choice),
      "measured: on a GPU the algorithm of each product is timed once and kept in the run folder; "
      "never run on a GPU")
      .host();
  add(rows, WMTP_KEY(runtime.loss_chunk_rows), "Rows of logits that exist at once; 0 = auto")
      .host()
      .at_least(0);
  add(rows, WMTP_KEY(runtime.memory_limit_gib), "Lowers the memory the plan may use")
      .host()
      .above(0);
  add(rows, WMTP_KEY(runtime.peak_tflops), "Peak of the device, for MFU where it is unknown")
      .host()
      .above(0);
  add(rows, WMTP_KEY(runtime.stop_before_end_s),
      "Seconds before the end of the allocation to stop and save; null = 2 x save time + 60; 0 = "
      "off")
      .host()
      .at_least(0);
  add(rows, WMTP_KEY(runtime.stop_file), "The run stops and saves when this file appears").host();
  add(rows, WMTP_KEY(runtime.grace_s), "Seconds the save of a stop may take")
      .host()
      .between(1, 86400);
  add(rows, WMTP_KEY(runtime.loss_spike.action), "On a loss far above the recent ones").free();
  add(rows, WMTP_KEY(runtime.loss_spike.z),
      "How many deviations (1.4826 MAD) above the median is far")
      .free()
      .above(0);
  add(rows, WMTP_KEY(runtime.loss_spike.window), "Recent steps looked at").free().between(2, 10000);
}

}  // namespace wmtp::config
