// What people are told of the rules on stability. The limits are made from the constants of
// rules.h, so that no text speaks of another number than the code.
#include <fmt/format.h>

#include "wmtp/tracking/report/findings/rule_texts.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {

std::vector<Rule> stability_rules() {
  return {
      {.id = "bad-steps",
       .question = kUnstable,
       .severity = Severity::problem,
       .subject = "steps that are not finite",
       .limit =
           fmt::format("more than {} of the steps, or the last loss", percent_text(kBadStepShare)),
       .why = "single ones change nothing, and with fp16 they are how the loss scale adapts; one "
              "in a hundred has a cause",
       .advice = "lower training.learning_rate, lengthen training.lr_scheduler.warmup_steps, use "
                 "distributed.fsdp.param_dtype bf16 in place of fp16",
       .keys = {"training.learning_rate", "training.lr_scheduler.warmup_steps",
                "distributed.fsdp.param_dtype"},
       .docs = kTroubles,
       .section = "NaN",
       .chart = "Loss",
       .look = look_at_bad_steps},
      {.id = "loss-spikes",
       .question = kUnstable,
       .subject = "losses that stand out",
       .limit = fmt::format("{:g} or more, by the measure of runtime.loss_spike", kSpikes),
       .why = "that measure is eight deviations, which noise does not reach",
       .advice = "look at the samples of that step (wmtp data inspect --step); where the loss does "
                 "not come back, go on from a checkpoint before it with a smaller "
                 "training.learning_rate; where rows differ by nature, raise runtime.loss_spike.z",
       .keys = {"training.learning_rate", "runtime.loss_spike.z"},
       .docs = kTroubles,
       .section = "A loss spike",
       .chart = "Loss",
       .explained_by = {"rate-too-high"},
       .look = look_at_spikes},
      {.id = "rate-too-high",
       .question = kUnstable,
       .severity = Severity::problem,
       .subject = "a loss that rises",
       .limit = fmt::format("the median loss of the last quarter is above {:g} times the least "
                            "before it, and by more than {:g} times the noise from report to "
                            "report ({} reports or more)",
                            kLossRise, kLossRiseNoise, kLeastLosses),
       .why = "a quarter more than it had come to, beyond what its own noise explains, is "
              "divergence and not bad luck",
       .advice = "lower training.learning_rate to a third or a tenth, lengthen "
                 "training.lr_scheduler.warmup_steps",
       .keys = {"training.learning_rate", "training.lr_scheduler.warmup_steps"},
       .docs = kTroubles,
       .section = "A loss that rises or stands still",
       .chart = "Loss",
       .look = look_at_learning_rate},
      {.id = "gradients-clipped",
       .question = kUnstable,
       .subject = "clipping of gradients",
       .limit = fmt::format("more than {} of the steps after the first quarter are cut to less "
                            "than {} of their length",
                            percent_text(kClippedShare), percent_text(kClippedBelow)),
       .why = "clipping is for outliers and for the first steps; a limit ten times below the usual "
              "norm gives every step the same length, whatever its gradient says",
       .advice = "raise training.max_grad_norm to about the usual train/grad_norm_pre_clip, or "
                 "lower training.learning_rate where that norm rises",
       .keys = {"training.max_grad_norm", "training.learning_rate"},
       .docs = kTroubles,
       .section = "Gradients that are always clipped",
       .chart = "Factor of clipping",
       .explained_by = {"rate-too-high", "bad-steps", "weights-collapsed"},
       .look = look_at_gradient_clipping},
  };
}

}  // namespace wmtp::tracking
