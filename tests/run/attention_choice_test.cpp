#include "wmtp/run/plan/kernels/attention_choice.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/model/presets.h"

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

}  // namespace
}  // namespace wmtp::run
