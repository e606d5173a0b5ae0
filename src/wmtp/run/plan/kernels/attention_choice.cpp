#include "wmtp/run/plan/kernels/attention_choice.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/kernels/packed/attention.h"
#include "wmtp/kernels/packed/documents.h"
#include "wmtp/run/plan/kernels/run_gpu.h"

namespace wmtp::run {
namespace {

using config::AttentionKernel;
using kernels::AttentionChoice;

AttentionChoice choice_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::automatic:
      return AttentionChoice::automatic;
    case AttentionKernel::cudnn:
      return AttentionChoice::cudnn;
    case AttentionKernel::flash:
      return AttentionChoice::flash;
    case AttentionKernel::reference:
      return AttentionChoice::reference;
  }
  WMTP_CHECK(false, "no such attention kernel");
}

// Statistics in the order of the tokens, which the backward reads, are known to these.
bool reads_packed_statistics(const GpuInfo& gpu) {
  return gpu.major == 9 || gpu.major == 10;
}

kernels::PackedBucket bucket_of(const AttendingModel& model) {
  return kernels::packed_bucket(model.num_documents, model.max_length,
                                model.num_documents * model.max_length);
}

// A plan for another machine's GPU does not know what was built there.
std::string cudnn_obstacle(const config::Runtime& runtime, const AttendingModel& model,
                           c10::Device device, const std::optional<GpuInfo>& named_gpu) {
  const bool asks_here = !named_gpu || cuda_loaded();
  if (asks_here && !kernels::has_packed_attention())
    return "the GPU plugin was built without cuDNN's frontend";
  const std::optional<GpuInfo> gpu = run_gpu(device, named_gpu);
  if (gpu && !reads_packed_statistics(*gpu))
    return fmt::format("it takes compute capabilities 9.x and 10.x, and {} has {}.{}", gpu->name,
                       gpu->major, gpu->minor);
  const std::int64_t bytes = stored_score_bytes(runtime, model);
  const kernels::PackedBucket bucket = bucket_of(model);
  if (bytes > kernels::kMostPackedScoreBytes)
    return fmt::format(
        "with runtime.deterministic it stores {:.1f} GiB for {} documents of {} "
        "tokens, more than {}",
        static_cast<double>(bytes) / (std::int64_t{1} << 30), bucket.documents, bucket.length,
        kernels::kMostPackedScoreBytes >> 30);
  return "";
}

// Why the kernel does not take the model; empty where it does.
std::string obstacle(const config::Runtime& runtime, const AttendingModel& model,
                     c10::Device device, const std::optional<GpuInfo>& named_gpu) {
  const AttentionKernel kernel = runtime.attention;
  if (device.is_cpu()) return kernel == AttentionKernel::cudnn ? "it computes on GPUs only" : "";
  if (kernel == AttentionKernel::automatic) return "";
  if (kernel == AttentionKernel::reference) return "it has a CPU body only";
  if (model.dtype == kFloat32) return fmt::format("the {} computes in fp32", model.words);
  if (model.config.head_dim > kernels::kLargestForFlash)
    return fmt::format("the {}'s heads have {} features, more than {}", model.words,
                       model.config.head_dim, kernels::kLargestForFlash);
  return kernel == AttentionKernel::cudnn ? cudnn_obstacle(runtime, model, device, named_gpu) : "";
}

}  // namespace

kernels::AttentionOptions attention_options(const config::Runtime& runtime,
                                            const AttendingModel& model, c10::Device device,
                                            const std::optional<GpuInfo>& named_gpu) {
  const std::string why_not = obstacle(runtime, model, device, named_gpu);
  if (!why_not.empty())
    throw Error(
        ErrorKind::config, "model",
        fmt::format("runtime.attention: {} on a {}, but {}", config::name_of(runtime.attention),
                    device.is_cpu() ? "CPU" : "GPU", why_not),
        "set auto: it takes the fastest kernel that does");
  return {choice_of(runtime.attention), runtime.deterministic};
}

std::int64_t stored_score_bytes(const config::Runtime& runtime, const AttendingModel& model) {
  const bool stores = runtime.attention == AttentionKernel::cudnn && runtime.deterministic;
  if (!stores || model.num_documents == 0) return 0;
  return kernels::packed_score_bytes(bucket_of(model), model.config.num_heads);
}

void tell_attention(config::AttentionKernel kernel, c10::Device device) {
  if (kernel != AttentionKernel::cudnn || !device.is_cuda()) return;
  log::info("train",
            "runtime.attention: cudnn has never run on a GPU over documents of different lengths: "
            "what stands around the library was held to the CPU's numbers by emulation only");
}

}  // namespace wmtp::run
