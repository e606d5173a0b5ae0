// Rows of `training` that all stages share.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

void add_step_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.n_epochs), "Passes over the data; parts are allowed").free().above(0);
  add(rows, WMTP_KEY(training.max_steps), "Optimizer steps at most").free().at_least(1);
  add(rows, WMTP_KEY(training.batch_size), "Sequences of a micro-batch, per rank")
      .free()
      .between(1, 1 << 20);
  add(rows, WMTP_KEY(training.gradient_accumulation_steps), "Micro-batches of a step")
      .free()
      .between(1, 1 << 20);
  add(rows, WMTP_KEY(training.global_batch_size),
      "Sequences of a step over all ranks; sets the accumulation, must divide by ranks * "
      "batch_size")
      .free()
      .at_least(1);
  add(rows, WMTP_KEY(training.learning_rate), "Peak learning rate")
      .needed()
      .free()
      .above(0)
      .between(0, 1);
  add(rows, WMTP_KEY(training.max_grad_norm), "Global gradient norm limit; null = no clipping")
      .free()
      .above(0);
  add(rows, WMTP_KEY(training.loss_normalization), "What a head's loss is divided by")
      .default_is("tokens; rho1: weights");
  add(rows, WMTP_KEY(training.max_bad_steps), "Steps in a row without finite numbers, then exit 17")
      .free()
      .at_least(1);
  add(rows, WMTP_KEY(training.log_interval), "Steps between log lines").free().at_least(1);
  add(rows, WMTP_KEY(training.eval_every), "Epochs between validations; null = at each checkpoint")
      .free()
      .above(0);
  add(rows, WMTP_KEY(training.eval_every_steps), "Steps between validations").free().at_least(1);
  add(rows, WMTP_KEY(training.eval_at_start), "Validate before the first step").free();
  add(rows, WMTP_KEY(training.early_stop_patience), "Validations without improvement, then stop")
      .free()
      .at_least(1);
}

void add_lora_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.float8),
      "Products of blocks on 8-bit operands, on GPUs of compute capability 9.0 or newer; never run "
      "on one yet")
      .free();
  add(rows, WMTP_KEY(training.use_lora), "Train low-rank adapters, the base stays frozen");
  add(rows, WMTP_KEY(training.lora.rank), "Rank of the adapters").between(1, 1024);
  add(rows, WMTP_KEY(training.lora.alpha), "Scale: alpha / rank").above(0);
  add(rows, WMTP_KEY(training.lora.dropout), "Dropout on the adapters' input")
      .between(0, 1)
      .below(1);
  add(rows, WMTP_KEY(training.lora.target_modules),
      "Weights with adapters, in either naming scheme");
  add(rows, WMTP_KEY(training.lora.scope), "Where adapters are: trunk, heads or both");
  add(rows, WMTP_KEY(training.lora.train_heads), "With scope trunk: head blocks are fully trained");
  add(rows, WMTP_KEY(training.lora.learning_rate), "null = training.learning_rate, in critic 1e-4")
      .free()
      .above(0)
      .between(0, 1);
  add(rows, WMTP_KEY(training.lora.weight_decay), "null = optimizer.weight_decay")
      .free()
      .at_least(0);
}

void add_optimizer_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(training.optimizer.type), "The optimizer");
  add(rows, WMTP_KEY(training.optimizer.betas), "Decay of the first and second moment")
      .free()
      .between(0, 1)
      .below(1);
  add(rows, WMTP_KEY(training.optimizer.eps), "Added to the root of the second moment")
      .free()
      .above(0);
  add(rows, WMTP_KEY(training.optimizer.weight_decay), "Decoupled weight decay").free().at_least(0);
  add(rows, WMTP_KEY(training.optimizer.no_decay), "Parameters left out of weight decay");
  add(rows, WMTP_KEY(training.optimizer.precision),
      "How masters and moments are kept; split = fp32")
      .free();
  add(rows, WMTP_KEY(training.lr_scheduler.type), "Course of the learning rate after warm-up")
      .free();
  add(rows, WMTP_KEY(training.lr_scheduler.warmup_ratio), "Warm-up as a share of the steps")
      .free()
      .between(0, 1);
  add(rows, WMTP_KEY(training.lr_scheduler.warmup_steps), "Warm-up in steps; wins over the ratio")
      .free()
      .at_least(0);
  add(rows, WMTP_KEY(training.lr_scheduler.min_lr_ratio), "Floor as a share of the peak")
      .free()
      .between(0, 1);
  add(rows, WMTP_KEY(training.lr_scheduler.min_lr), "Floor as a number; wins over the ratio")
      .free()
      .at_least(0);
  add(rows, WMTP_KEY(training.lr_scheduler.patience), "plateau: validations without improvement")
      .free()
      .at_least(0);
  add(rows, WMTP_KEY(training.lr_scheduler.factor), "plateau: what the rate is multiplied with")
      .free()
      .above(0)
      .between(0, 1)
      .below(1);
}

}  // namespace

void add_training_rows(std::vector<Row>& rows) {
  add_step_rows(rows);
  add_lora_rows(rows);
  add_optimizer_rows(rows);
}

}  // namespace wmtp::config
