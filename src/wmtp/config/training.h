// Section `training`. Initial values are the built-in defaults; meanings, ranges and resume classes
// stand in the schema table (table_training.cpp).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/enum_names.h"
#include "wmtp/config/objectives.h"

namespace wmtp::config {

enum class LossNormalization { tokens, weights, weights_joint };
WMTP_ENUM_NAMES(LossNormalization, "tokens", "weights", "weights_joint");
enum class LoraScope { both, trunk, heads };
WMTP_ENUM_NAMES(LoraScope, "both", "trunk", "heads");
enum class OptimizerType { adamw };
WMTP_ENUM_NAMES(OptimizerType, "adamw");
enum class NoDecay { none, norms_and_biases };
WMTP_ENUM_NAMES(NoDecay, "none", "norms_and_biases");
enum class OptimizerPrecision { fp32, split, bf16_moments, bf16_sr, int8 };
WMTP_ENUM_NAMES(OptimizerPrecision, "fp32", "split", "bf16_moments", "bf16_sr", "int8");
enum class Float8 { off, tensorwise, rowwise };
WMTP_ENUM_NAMES(Float8, "off", "tensorwise", "rowwise");
enum class LrSchedule { constant, cosine, linear, exponential, plateau };
WMTP_ENUM_NAMES(LrSchedule, "constant", "cosine", "linear", "exponential", "plateau");

struct Lora {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;
  std::vector<std::string> target_modules{"wq", "wk", "wv", "wo"};
  LoraScope scope = LoraScope::both;
  bool train_heads = false;
  std::optional<double> learning_rate;  // null: see lora_learning_rate() in derived.h
  std::optional<double> weight_decay;   // null: optimizer.weight_decay
};

struct Optimizer {
  OptimizerType type = OptimizerType::adamw;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.01;
  NoDecay no_decay = NoDecay::none;
  OptimizerPrecision precision = OptimizerPrecision::fp32;
};

struct LrScheduler {
  LrSchedule type = LrSchedule::constant;
  double warmup_ratio = 0;
  std::optional<std::int64_t> warmup_steps;  // wins over warmup_ratio
  double min_lr_ratio = 0;
  std::optional<double> min_lr;
  std::int64_t patience = 2;
  double factor = 0.5;
};

struct Training {
  double n_epochs = 1;
  std::optional<std::int64_t> max_steps;
  std::int64_t batch_size = 1;
  std::int64_t gradient_accumulation_steps = 1;  // see accumulation_steps() in derived.h
  std::optional<std::int64_t> global_batch_size;
  double learning_rate = 0;
  std::optional<double> max_grad_norm = 1.0;
  LossNormalization loss_normalization = LossNormalization::tokens;  // rho1: weights, unless set
  std::int64_t max_bad_steps = 10;
  std::int64_t log_interval = 10;
  std::optional<double> eval_every;
  std::optional<std::int64_t> eval_every_steps;
  bool eval_at_start = false;
  std::optional<std::int64_t> early_stop_patience;
  Float8 float8 = Float8::off;
  bool use_lora = false;
  Lora lora;
  Optimizer optimizer;
  LrScheduler lr_scheduler;
  Td td;
  Control control;
  Value value;
  ValueHead value_head;
  ValueLoss value_loss;
  bool backbone_frozen = true;
  Rho1 rho1;
  bool signal_cache = true;
};

}  // namespace wmtp::config
