// Rows of `training` that belong to one stage.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

void add_td_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.td.mode),
      "verifiable: one-step differences, or generalised advantages");
  add(rows, WMTP_KEY(training.td.gamma), "Discount").above(0).between(0, 1);
  add(rows, WMTP_KEY(training.td.lambda), "gae: decay of the advantage sum").between(0, 1);
  add(rows, WMTP_KEY(training.td.v_init), "Value before the first token");
  add(rows, WMTP_KEY(training.td.beta), "Temperature: weight = exp(x / beta)")
      .above(0)
      .default_is("0.9; gae: 1");
  add(rows, WMTP_KEY(training.td.clip_min), "Smallest weight").at_least(0).default_is("0.1");
  add(rows, WMTP_KEY(training.td.clip_max), "Largest weight").above(0).default_is("5; gae: 3");
  add(rows, WMTP_KEY(training.td.whiten), "Centre and scale x before the exponential")
      .default_is("none; gae: ema");
  add(rows, WMTP_KEY(training.td.scope), "whiten batch: tokens that share mean and deviation");
  add(rows, WMTP_KEY(training.td.terminal), "What stands after the last token");
  add(rows, WMTP_KEY(training.td.ema_momentum), "whiten ema: share of the new step")
      .free()
      .above(0)
      .between(0, 1);
  add(rows, WMTP_KEY(training.td.ema_warmup_steps), "whiten ema: steps of plain averaging first")
      .free()
      .at_least(0);
  add(rows, WMTP_KEY(training.td.control),
      "Control experiment: weights drawn at random, or shuffled");
  add(rows, WMTP_KEY(training.control.mean), "control random: mean of the weights").above(0);
  add(rows, WMTP_KEY(training.control.std), "control random: their deviation").above(0);
  add(rows, WMTP_KEY(training.control.match), "Whether the moments hold after or before clipping");
}

void add_value_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.value.source),
      "verifiable: a head trained along, or a model from a critic run");
  add(rows, WMTP_KEY(training.value.coef), "joint: weight of the value loss").at_least(0);
  add(rows, WMTP_KEY(training.value.init_from), "joint: critic checkpoint the head starts from")
      .must_exist();
  add(rows, WMTP_KEY(training.value.stop_gradient),
      "joint: the value loss does not reach the trunk");
  add(rows, WMTP_KEY(training.value_head.type), "Shape of the value head");
  add(rows, WMTP_KEY(training.value_head.dropout), "Dropout inside the head")
      .between(0, 1)
      .below(1);
  add(rows, WMTP_KEY(training.value_head.learning_rate), "Its learning rate")
      .free()
      .above(0)
      .between(0, 1);
  add(rows, WMTP_KEY(training.value_head.weight_decay), "Its weight decay").free().at_least(0);
}

void add_value_loss_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.value_loss.type), "critic: what the value is trained towards");
  add(rows, WMTP_KEY(training.value_loss.loss_fn), "Distance to the target");
  add(rows, WMTP_KEY(training.value_loss.huber_delta), "huber: where it turns linear").above(0);
  add(rows, WMTP_KEY(training.value_loss.gamma), "lambda_return: discount").above(0).between(0, 1);
  add(rows, WMTP_KEY(training.value_loss.coef), "Factor of the loss").above(0);
  add(rows, WMTP_KEY(training.value_loss.reduction),
      "Mean over sequences of token means, or over all tokens");
  add(rows, WMTP_KEY(training.value_loss.bias_init), "Start of the head's last bias; null = 0");
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.type), "Course of lambda");
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.value), "constant: lambda").between(0, 1);
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.start), "First lambda").between(0, 1);
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.end), "Last lambda").between(0, 1);
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.warmup_steps), "Steps at start")
      .at_least(0);
  add(rows, WMTP_KEY(training.value_loss.lambda_schedule.decay_steps), "Steps from start to end")
      .at_least(0);
  add(rows, WMTP_KEY(training.backbone_frozen), "critic: only the head (and adapters) are trained");
}

}  // namespace

void add_objective_rows(std::vector<Row>& rows) {
  add_td_rows(rows);
  add_value_rows(rows);
  add_value_loss_rows(rows);
  add(rows, WMTP_KEY(training.rho1.mode), "How the excess over the reference ranks tokens");
  add(rows, WMTP_KEY(training.rho1.k_percent), "Share of tokens kept").above(0).between(0, 1);
  add(rows, WMTP_KEY(training.rho1.scope), "Tokens that compete with each other");
  add(rows, WMTP_KEY(training.rho1.first_head),
      "The first head learns from all tokens, or from the chosen");
  add(rows, WMTP_KEY(training.signal_cache), "Store value and reference signals per token").host();
}

}  // namespace wmtp::config
