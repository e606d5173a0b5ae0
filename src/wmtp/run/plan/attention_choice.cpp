#include "wmtp/run/plan/attention_choice.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

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

// Why the kernel does not take the model; empty where it does.
std::string obstacle(AttentionKernel kernel, const AttendingModel& model, c10::Device device) {
  if (device.is_cpu() || kernel == AttentionKernel::automatic) return "";
  if (kernel == AttentionKernel::reference) return "it has a CPU body only";
  if (model.dtype == kFloat32) return fmt::format("the {} computes in fp32", model.words);
  if (model.config.head_dim > kernels::kLargestForFlash)
    return fmt::format("the {}'s heads have {} features, more than {}", model.words,
                       model.config.head_dim, kernels::kLargestForFlash);
  return "";
}

}  // namespace

kernels::AttentionOptions attention_options(const config::Runtime& runtime,
                                            const AttendingModel& model, c10::Device device) {
  const std::string why_not = obstacle(runtime.attention, model, device);
  if (!why_not.empty())
    throw Error(ErrorKind::config, "model",
                fmt::format("runtime.attention: {} on a GPU, but {}",
                            config::name_of(runtime.attention), why_not),
                "set auto: it takes the fastest kernel that does");
  return {choice_of(runtime.attention), runtime.deterministic};
}

}  // namespace wmtp::run
