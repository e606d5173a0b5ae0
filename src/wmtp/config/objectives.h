// The parts of section `training` that belong to one stage: token weights, critic, rho1. Initial
// values are the built-in defaults; meanings, ranges and resume classes stand in
// table_objectives.cpp.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "wmtp/config/enum_names.h"

namespace wmtp::config {

enum class TdMode { td0, gae };
WMTP_ENUM_NAMES(TdMode, "td0", "gae");
enum class Whiten { none, batch, ema };
WMTP_ENUM_NAMES(Whiten, "none", "batch", "ema");
enum class Scope { micro_batch, ranks };
WMTP_ENUM_NAMES(Scope, "micro_batch", "ranks");
enum class TdTerminal { value, reward, monte_carlo };
WMTP_ENUM_NAMES(TdTerminal, "value", "reward", "monte_carlo");
enum class TdControl { none, random, shuffled };
WMTP_ENUM_NAMES(TdControl, "none", "random", "shuffled");
enum class ControlMatch { clipped, unclipped };
WMTP_ENUM_NAMES(ControlMatch, "clipped", "unclipped");
enum class ValueSource { joint, model };
WMTP_ENUM_NAMES(ValueSource, "joint", "model");
enum class ValueHeadType { mlp, linear, sigmoid };
WMTP_ENUM_NAMES(ValueHeadType, "mlp", "linear", "sigmoid");
enum class ValueLossType { mse, lambda_return, pairwise_ranking };
WMTP_ENUM_NAMES(ValueLossType, "mse", "lambda_return", "pairwise_ranking");
enum class ValueLossFn { huber, mse };
WMTP_ENUM_NAMES(ValueLossFn, "huber", "mse");
enum class ValueReduction { sequence, token };
WMTP_ENUM_NAMES(ValueReduction, "sequence", "token");
enum class LambdaScheduleType { constant, linear, cosine };
WMTP_ENUM_NAMES(LambdaScheduleType, "constant", "linear", "cosine");
enum class Rho1Mode { signed_excess, absolute, difficult };
WMTP_ENUM_NAMES(Rho1Mode, "signed", "absolute", "difficult");
enum class Rho1FirstHead { always, topk };
WMTP_ENUM_NAMES(Rho1FirstHead, "always", "topk");

struct Td {
  TdMode mode = TdMode::td0;
  double gamma = 1;
  double lambda = 0.95;
  double v_init = 0.5;
  // The values of td0; with gae, and not set by the user: 1, 0.1, 3, ema.
  double beta = 0.9, clip_min = 0.1, clip_max = 5;
  Whiten whiten = Whiten::none;
  Scope scope = Scope::micro_batch;
  TdTerminal terminal = TdTerminal::value;
  double ema_momentum = 0.1;
  std::int64_t ema_warmup_steps = 10;
  TdControl control = TdControl::none;
};

struct Control {
  double mean = 1.328, std = 0.981;
  ControlMatch match = ControlMatch::clipped;
};

struct Value {
  ValueSource source = ValueSource::joint;
  double coef = 0.5;
  std::optional<std::filesystem::path> init_from;
  bool stop_gradient = false;
};

struct ValueHead {
  ValueHeadType type = ValueHeadType::mlp;
  double dropout = 0;
  double learning_rate = 5e-4;
  double weight_decay = 0.01;
};

struct LambdaSchedule {
  LambdaScheduleType type = LambdaScheduleType::linear;
  double value = 0.995, start = 1, end = 0.95;
  std::int64_t warmup_steps = 250, decay_steps = 500;
};

struct ValueLoss {
  ValueLossType type = ValueLossType::mse;
  ValueLossFn loss_fn = ValueLossFn::huber;
  double huber_delta = 0.5;
  double gamma = 1;
  double coef = 1;
  ValueReduction reduction = ValueReduction::sequence;
  std::optional<double> bias_init;
  LambdaSchedule lambda_schedule;
};

struct Rho1 {
  Rho1Mode mode = Rho1Mode::signed_excess;
  double k_percent = 0.6;
  Scope scope = Scope::micro_batch;
  Rho1FirstHead first_head = Rho1FirstHead::always;
};

}  // namespace wmtp::config
