#include "wmtp/run/plan/kernels/attention_choice.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {
namespace {

using config::AttentionKernel;
using kernels::AttentionChoice;

const c10::Device kOneGpu(c10::kCUDA, 0), kHost(c10::kCPU);

config::Runtime asking_for(AttentionKernel kernel, bool deterministic = false) {
  config::Runtime runtime;
  runtime.attention = kernel;
  runtime.deterministic = deterministic;
  return runtime;
}

TEST(AttentionChoice, IsTheOneThatWasAskedFor) {
  const model::ModelConfig micro = model::preset("micro");
  const AttendingModel model{"model", micro, kBFloat16};
  const auto choice = [&](AttentionKernel kernel, c10::Device device) {
    return attention_options(asking_for(kernel), model, device).choice;
  };
  EXPECT_EQ(choice(AttentionKernel::automatic, kOneGpu), AttentionChoice::automatic);
  EXPECT_EQ(choice(AttentionKernel::flash, kOneGpu), AttentionChoice::flash);
  EXPECT_EQ(choice(AttentionKernel::flash, kHost), AttentionChoice::flash);
  EXPECT_EQ(choice(AttentionKernel::reference, kHost), AttentionChoice::reference);
}

TEST(AttentionChoice, IsReproducibleWhereThatIsAskedFor) {
  const model::ModelConfig micro = model::preset("micro");
  for (const bool wanted : {false, true})
    EXPECT_EQ(attention_options(asking_for(AttentionKernel::automatic, wanted),
                                {"model", micro, kBFloat16}, kOneGpu)
                  .deterministic,
              wanted);
}

TEST(AttentionChoice, KernelsThatDoNotTakeTheModelAreRefused) {
  model::ModelConfig wide = model::preset("micro");
  wide.head_dim = 257;
  EXPECT_WMTP_ERROR((attention_options(asking_for(AttentionKernel::flash),
                                       {"frozen model", wide, kBFloat16}, kOneGpu)),
                    ErrorKind::config, "the frozen model's heads have 257 features, more than 256");
  EXPECT_WMTP_ERROR(
      (attention_options(asking_for(AttentionKernel::cudnn), {"model", wide, kBFloat16}, kHost)),
      ErrorKind::config, "runtime.attention: cudnn on a CPU, but it computes on GPUs");
  wide.head_dim = 256;
  EXPECT_WMTP_ERROR(
      (attention_options(asking_for(AttentionKernel::cudnn), {"model", wide, kBFloat16}, kOneGpu)),
      ErrorKind::config, "the GPU plugin was built without cuDNN's frontend");
  EXPECT_NO_THROW(
      attention_options(asking_for(AttentionKernel::flash), {"model", wide, kBFloat16}, kOneGpu));
}

// What the plugin of another machine was built with nobody knows here.
TEST(AttentionChoice, AGpuThatIsNamedIsAskedForItsComputeCapability) {
  const model::ModelConfig micro = model::preset("micro");
  const AttendingModel model{"model", micro, kBFloat16};
  const auto choice = [&](const char* gpu, AttentionKernel kernel) {
    return attention_options(asking_for(kernel), model, kOneGpu, device_model(gpu).gpu()).choice;
  };
  for (const char* gpu : {"h200", "h100", "b200"})
    EXPECT_EQ(choice(gpu, AttentionKernel::cudnn), AttentionChoice::cudnn) << gpu;
  EXPECT_WMTP_ERROR(choice("a100-80", AttentionKernel::cudnn), ErrorKind::config,
                    "runtime.attention: cudnn on a GPU, but it takes compute capabilities 9.x and "
                    "10.x, and NVIDIA A100 80GB has 8.0");
  for (const char* gpu : {"a100-40", "l40s", "rtx4090"})
    EXPECT_WMTP_ERROR(choice(gpu, AttentionKernel::cudnn), ErrorKind::config, "has 8.");
  EXPECT_EQ(choice("a100-80", AttentionKernel::flash), AttentionChoice::flash);
}

TEST(AttentionChoice, OfReproducibleBackwardsTellsWhatIsStored) {
  const model::ModelConfig micro = model::preset("micro");
  const AttendingModel trained{"model", micro, kBFloat16, 3, 1000}, read{"model", micro, kBFloat16};
  const config::Runtime stores = asking_for(AttentionKernel::cudnn, true);
  EXPECT_EQ(stored_score_bytes(stores, trained), 4 * micro.num_heads * 1024 * 1024 * 2);
  EXPECT_EQ(stored_score_bytes(stores, read), 0);
  EXPECT_EQ(stored_score_bytes(asking_for(AttentionKernel::cudnn), trained), 0);
  EXPECT_EQ(stored_score_bytes(asking_for(AttentionKernel::flash, true), trained), 0);
  const AttendingModel many{"model", micro, kBFloat16, 4096, 1024};
  EXPECT_WMTP_ERROR(attention_options(stores, many, kOneGpu, device_model("h200").gpu()),
                    ErrorKind::config, "with runtime.deterministic it stores");
}

}  // namespace
}  // namespace wmtp::run
