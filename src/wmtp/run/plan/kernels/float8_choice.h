// Whether a run's products can be computed in float8 (training.float8, bench step --float8).
#pragma once
#include <optional>
#include <string_view>

#include "wmtp/config/training.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/model/model_config.h"
#include "wmtp/parallel/options.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {

// Error config that begins with `key` where they cannot: sizes that float8 does not take, CPUs and
// GPUs that are too old, other compute dtypes than bf16, masters in host memory. `named_gpu` as
// RunContext has it.
kernels::Float8Recipe float8_recipe(config::Float8 wanted, std::string_view key,
                                    const model::ModelConfig& model,
                                    const parallel::ParallelOptions& options,
                                    const std::optional<GpuInfo>& named_gpu = {});

}  // namespace wmtp::run
