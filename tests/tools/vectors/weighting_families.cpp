// B rows, T positions, N = B T packed tokens.
#include <ATen/ops/full.h>

#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/weighting/ema.h"
#include "wmtp/weighting/td.h"
#include "wmtp/weighting/weights.h"

namespace wmtp::vectors {
namespace {

using namespace weighting;

WeightOptions weight_options(const Json& in, const WeightOptions& defaults) {
  WeightOptions options = defaults;
  options.beta = number(in, "beta", options.beta);
  if (in.contains("clip"))
    options.clip_min = number(in["clip"][0]), options.clip_max = number(in["clip"][1]);
  return options;
}

TdOptions td_options(const Json& in, TdMode mode) {
  TdOptions options;
  options.mode = mode;
  options.gamma = number(in, "gamma", options.gamma);
  options.lambda = number(in, "lambda", options.lambda);
  options.v_init = number(in, "v_init", options.v_init);
  options.terminal = static_cast<Terminal>(
      choice(text(in, "terminal", "value"), {"value", "reward", "monte_carlo"}));
  return options;
}

Tensor rewards(const Json& in) {
  return in.contains("R") && !in["R"].is_null() ? tensor(in["R"]) : Tensor();
}

Json td0(const Json& in) {
  const Rows rows = rows_of(tensor(in.at("m")), rewards(in));
  const Tensor x_N =
      td_error(td_options(in, TdMode::td0), tensor(in.at("v")).view({-1}), rows.responses);
  const Tensor w_N = token_weights(x_N, rows.responses.mask_N, weight_options(in, {})).weights_N;
  return {{"x", to_json(rows.grid(x_N))}, {"w", to_json(rows.grid(w_N))}};
}

Json gae(const Json& in) {
  const Rows rows = rows_of(tensor(in.at("m")), rewards(in));
  const Tensor x_N =
      td_error(td_options(in, TdMode::gae), tensor(in.at("v")).view({-1}), rows.responses);
  return {{"x", to_json(rows.grid(x_N))}};
}

// mean_std: [M, D] = ema, null = batch, "none" = no whitening.
Json weights(const Json& in) {
  const Rows rows = rows_of(tensor(in.at("m")));
  const Tensor x_N = tensor(in.at("x")).view({-1}), mask_N = rows.responses.mask_N;
  const Json mean_std = in.value("mean_std", Json(nullptr));
  Whitening whitening;
  if (mean_std.is_null())
    whitening = batch_whitening(masked_sums(x_N, mask_N));
  else if (mean_std.is_array())
    whitening = ema_whitening(number(mean_std[0]), number(mean_std[1]), c10::kCPU);
  const TokenWeights got = token_weights(x_N, mask_N, weight_options(in, {1, .1, 3}), whitening);
  return {{"w", to_json(rows.grid(got.weights_N))}};
}

Json ema(const Json& in) {
  EmaState start;
  start.momentum = number(in, "momentum", start.momentum);
  start.warmup_steps =
      static_cast<std::int64_t>(number(in, "warmup", static_cast<double>(start.warmup_steps)));
  EmaTracker tracker(start, c10::kCPU);
  const Tensor apply = at::full({}, 1, at::kInt);
  Json states = Json::array();
  for (const Json& step : in.at("steps")) {
    const Tensor x = tensor(step);
    tracker.update(masked_sums(x, at::full({x.numel()}, 1, kernels::kMaskType)), apply);
    const EmaState state = tracker.read();
    states.push_back({state.mean, state.std, state.count});
  }
  return {{"states", states}};
}

}  // namespace

Families weighting_families() {
  return {{"td0", td0}, {"gae", gae}, {"weights", weights}, {"ema", ema}};
}

}  // namespace wmtp::vectors
