#include "wmtp/run/plan/kernels/float8_choice.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/same_name.h"
#include "wmtp/model/float8_projection.h"
#include "wmtp/run/plan/kernels/run_gpu.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

constexpr int kOldestMajor = 9;  // Hopper

// Why such a run cannot be; empty where it can. A GPU that nobody knows, neither here nor named, is
// taken for one that has such products.
std::string float8_obstacle(const parallel::ParallelOptions& options,
                            const std::optional<GpuInfo>& named_gpu) {
  if (options.device.is_cpu()) return "needs a GPU of compute capability 9.0 or newer";
  const std::optional<GpuInfo> gpu = run_gpu(options.device, named_gpu);
  if (gpu && gpu->major < kOldestMajor)
    return fmt::format("needs a GPU of compute capability 9.0 or newer, and {} has {}.{}",
                       gpu->name, gpu->major, gpu->minor);
  if (options.offloads())
    return "with distributed.fsdp.cpu_offload: weights are quantised from masters on the GPU";
  if (options.param_dtype != kBFloat16)
    return fmt::format("where {} is computed with: its products take and give bf16",
                       wmtp::name_of(options.param_dtype));
  return "";
}

}  // namespace

kernels::Float8Recipe float8_recipe(config::Float8 wanted, std::string_view key,
                                    const model::ModelConfig& model,
                                    const parallel::ParallelOptions& options,
                                    const std::optional<GpuInfo>& named_gpu) {
  if (wanted == config::Float8::off) return kernels::Float8Recipe::off;
  model::check_float8_sizes(model, key);
  const std::string why_not = float8_obstacle(options, named_gpu);
  if (!why_not.empty())
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: {} {}", key, config::name_of(wanted), why_not),
                "set off: products then have the compute dtype");
  return same_name<kernels::Float8Recipe>(wanted);
}

}  // namespace wmtp::run
