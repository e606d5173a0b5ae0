// What people are told of the rules on learning and data. The limits are made from the constants of
// rules.h, so that no text speaks of another number than the code.
#include <fmt/format.h>

#include "wmtp/tracking/report/findings/rule_texts.h"
#include "wmtp/tracking/report/findings/rules.h"

namespace wmtp::tracking {

std::vector<Rule> learning_rules() {
  return {
      {.id = "flat-loss",
       .question = kNotLearning,
       .severity = Severity::problem,
       .subject = "a validation loss that stands still",
       .limit = fmt::format("the best of {} validations or more is within {} of the first",
                            kLeastValidations, percent_text(kFlatLoss)),
       .why = "all validations see the same rows, so that there is no noise to hide behind",
       .advice = "raise training.learning_rate; see that training.use_lora, "
                 "training.backbone_frozen and the trained parameters that the run names at its "
                 "start are what was meant",
       .keys = {"training.learning_rate", "training.use_lora", "training.backbone_frozen"},
       .docs = kTroubles,
       .section = "A loss that rises or stands still",
       .chart = "Loss",
       .explained_by = {"bad-steps", "critic-at-chance"},
       .look = look_at_flat_loss},
      {.id = "validation-rises",
       .question = kNotLearning,
       .subject = "a validation loss that turns",
       .limit = fmt::format("the last is above {:g} times the best while the loss of training "
                            "falls ({} validations or more)",
                            kValidationRise, kLeastValidations),
       .why = "all validations see the same rows: five percent are more than a wobble, and with a "
              "falling loss of training it is overfitting",
       .advice = "use the checkpoint `best`; fewer training.n_epochs, "
                 "training.early_stop_patience, more rows, more "
                 "training.optimizer.weight_decay",
       .keys = {"training.n_epochs", "training.early_stop_patience",
                "training.optimizer.weight_decay"},
       .docs = kTroubles,
       .section = "A loss that rises or stands still",
       .chart = "Loss",
       .explained_by = {"rate-too-high"},
       .look = look_at_rising_validation},
      {.id = "weights-collapsed",
       .question = kNotLearning,
       .severity = Severity::problem,
       .subject = "entropy of the token weights",
       .limit = fmt::format("a median of weight/entropy below {:g} in the last quarter (not of "
                            "rho1, whose weights are 0 or 1 by choice)",
                            kCollapsedEntropy),
       .why = "at that entropy a quarter of 1,000 tokens carries the loss, or a tenth of 100,000; "
              "weights of normally spread TD errors stay above 0.9",
       .advice = "raise training.td.beta, lower training.td.clip_max, or set training.td.whiten",
       .keys = {"training.td.beta", "training.td.clip_max", "training.td.whiten"},
       .docs = kStages,
       .section = "Weight statistics",
       .chart = "Entropy and clipping of weights",
       .look = look_at_weight_entropy},
      {.id = "weights-clipped",
       .question = kNotLearning,
       .subject = "clipping of the token weights",
       .limit = fmt::format("a median of weight/clipping_ratio above {} in the last quarter",
                            percent_text(kWeightsClippedShare)),
       .why = "where most tokens stand at a bound, the bounds are the weights and the TD errors "
              "hardly matter",
       .advice = "raise training.td.beta, or widen training.td.clip_min and training.td.clip_max",
       .keys = {"training.td.beta", "training.td.clip_min", "training.td.clip_max"},
       .docs = kStages,
       .section = "Weight statistics",
       .chart = "Entropy and clipping of weights",
       .explained_by = {"weights-collapsed"},
       .look = look_at_weight_clipping},
      {.id = "critic-at-chance",
       .question = kNotLearning,
       .severity = Severity::problem,
       .subject = "a critic that guesses",
       .limit = fmt::format("the last val/auc (without one: val/pairwise_accuracy) is {:g} or less",
                            kChance),
       .why = "a coin has 0.5, and with 100 answers of each kind chance alone reaches 0.55",
       .advice = "train longer or with a larger training.value_head.learning_rate, let the "
                 "backbone learn (training.backbone_frozen false, or training.use_lora), see that "
                 "both kinds of rows are there (data_sampling.balance_correct)",
       .keys = {"training.value_head.learning_rate", "training.backbone_frozen",
                "training.use_lora", "data_sampling.balance_correct"},
       .docs = kStages,
       .section = "Value head and critic",
       .chart = "Pairwise accuracy",
       .look = look_at_critic},
  };
}

std::vector<Rule> data_rules() {
  return {
      {.id = "few-correct-rows",
       .question = kNotLearning,
       .severity = Severity::problem,
       .subject = "correct rows",
       .limit = fmt::format("less than {} of the rows that are drawn", percent_text(kCorrectShare)),
       .why = "below one in ten a batch of eight often has none: a policy imitates wrong answers, "
              "and values have nothing to tell apart",
       .advice = "draw more of them with data_sampling.balance_correct and a larger "
                 "data_sampling.correct_ratio, or add correct rows to dataset.train",
       .keys = {"data_sampling.balance_correct", "data_sampling.correct_ratio", "dataset.train"},
       .docs = kTroubles,
       .section = "Rows that teach nothing",
       .look = look_at_correct_rows},
      {.id = "truncated-answers",
       .question = kNotLearning,
       .severity = Severity::problem,
       .subject = "rows that are cut",
       .limit = fmt::format("more than {} of the rows are longer than dataset.max_length",
                            percent_text(kTruncatedShare)),
       .why = "an answer without its end teaches to go on, and one in twenty is enough to see that "
              "in what the model writes",
       .advice =
           "raise dataset.max_length (wmtp data inspect --stats shows the lengths), or choose "
           "what gives way with dataset.truncate: keep_response or drop",
       .keys = {"dataset.max_length", "dataset.truncate"},
       .docs = kTroubles,
       .section = "Rows that teach nothing",
       .look = look_at_truncation},
  };
}

}  // namespace wmtp::tracking
