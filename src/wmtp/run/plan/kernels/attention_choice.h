// Which attention kernel a model of the run takes (runtime.attention, runtime.deterministic).
#pragma once
#include <optional>
#include <string_view>

#include "wmtp/config/runtime.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/model/model_config.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {

// A model as attention sees it; `words` name it in an error.
struct AttendingModel {
  std::string_view words;
  const model::ModelConfig& config;
  DType dtype = kFloat32;  // compute
  // Of a micro-batch at most, for what a reproducible backward stores; 0: there is no backward.
  std::int64_t num_documents = 0, max_length = 0;
};
// Error config for a kernel that does not take that model on that device. `named_gpu` as RunContext
// has it.
kernels::AttentionOptions attention_options(const config::Runtime& runtime,
                                            const AttendingModel& model, c10::Device device,
                                            const std::optional<GpuInfo>& named_gpu = {});
// What cuDNN stores, layer by layer, to be reproducible in its backward over documents of different
// lengths: at most kMostPackedScoreBytes where it is taken, 0 where nothing has to be.
std::int64_t stored_score_bytes(const config::Runtime& runtime, const AttendingModel& model);
// Says of a kernel that was asked for and has never run on a GPU that it has not.
void tell_attention(config::AttentionKernel kernel, c10::Device device);

}  // namespace wmtp::run
