// wmtp_stage_probe: one step of a stage on a tiny model, written out for an independent
// implementation to compare with.
//   wmtp_stage_probe CASE.json DIR
// CASE: {"stage", "batch_size", "row_stride", "lora": {rank, alpha, targets, scope, train_heads},
//   "value_head": type, "joint", "frozen": seed, "ema": [M, D, c], "options": {of the stage, by the
//   names of the configuration}, "samples": [[{"ids", "prompt", "reward", "role", "value",
//   "ref_nll"} ...]]}; null in a value is NaN.
// DIR/weights.safetensors (before the step), DIR/frozen.safetensors, DIR/grads.safetensors (before
// clipping), DIR/step.json {loss, grad_norm, applied, bad, metrics, ema, views: [{weight, value,
// selected}] of each micro-batch}.
#include <ATen/ops/empty.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/runs/stage_run.h"
#include "support/simd_limit.h"
#include "tools/write_tensors.h"
#include "wmtp/comm/groups.h"
#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/model/weight_names.h"

namespace {

using namespace wmtp;
using test::StageKind;
using Named = std::vector<std::pair<std::string, Tensor>>;

// The place of a name in a list: enumerators stand in that order.
template <class Enum>
Enum named(const Json& from, const char* key, std::vector<std::string> names) {
  const auto name = from.value(key, names.front());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw Error(ErrorKind::config, "probe", std::string(key) + ": " + name);
}

losses::Normalization normalization(const Json& options) {
  return named<losses::Normalization>(options, "loss_normalization",
                                      {"tokens", "weights", "weights_joint"});
}

losses::ValueLossOptions value_loss(const Json& options) {
  losses::ValueLossOptions loss;
  loss.type =
      named<losses::ValueLossType>(options, "type", {"mse", "lambda_return", "pairwise_ranking"});
  loss.loss_fn = named<losses::ValueLossFn>(options, "loss_fn", {"huber", "mse"});
  loss.reduction = named<losses::ValueReduction>(options, "reduction", {"sequence", "token"});
  loss.huber_delta = options.value("huber_delta", 0.5);
  loss.gamma = options.value("gamma", 1.0);
  return loss;
}

losses::LambdaSchedule constant_lambda(const Json& options) {
  losses::LambdaSchedule schedule;
  schedule.type = losses::LambdaScheduleType::constant;
  schedule.value = options.value("lambda", 1.0);
  return schedule;
}

void read_critic(const Json& options, test::StageSetup& setup) {
  training::CriticOptions& critic = setup.critic;
  critic.loss = value_loss(options);
  critic.lambda_schedule = constant_lambda(options);
  critic.coef = options.value("coef", 1.0);
  critic.pairs = critic.loss.type == losses::ValueLossType::pairwise_ranking;
  critic.backbone_learns = options.value("backbone_learns", false) || setup.lora.has_value();
}

void read_verifiable(const Json& options, test::StageSetup& setup) {
  training::VerifiableOptions& verifiable = setup.verifiable;
  verifiable.normalization = normalization(options);
  verifiable.td.mode = named<weighting::TdMode>(options, "mode", {"td0", "gae"});
  verifiable.td.terminal =
      named<weighting::Terminal>(options, "terminal", {"value", "reward", "monte_carlo"});
  verifiable.td.gamma = options.value("gamma", 1.0);
  verifiable.td.lambda = options.value("lambda", 0.95);
  verifiable.td.v_init = options.value("v_init", 0.5);
  verifiable.weights = {options.value("beta", 0.9), options.value("clip_min", 0.1),
                        options.value("clip_max", 5.0)};
  verifiable.whiten = named<training::Whiten>(options, "whiten", {"none", "batch", "ema"});
  verifiable.control =
      named<training::WeightControl>(options, "control", {"none", "random", "shuffled"});
  verifiable.random_law = {options.value("mu", 0.0), options.value("sigma", 1.0)};
  verifiable.seed = 17;
  verifiable.value_coef = options.value("value_coef", 0.5);
  verifiable.stop_gradient = options.value("stop_gradient", false);
  const Json loss = options.value("value_loss", Json::object());
  verifiable.value_loss = value_loss(loss);
  verifiable.lambda_schedule = constant_lambda(loss);
}

void read_rho1(const Json& options, test::StageSetup& setup) {
  training::Rho1Options& rho1 = setup.rho1;
  rho1.normalization = normalization(options);
  rho1.mode = named<weighting::Rho1Mode>(options, "mode", {"signed", "absolute", "difficult"});
  rho1.k_percent = options.value("k_percent", 0.6);
  rho1.first_head_always = options.value("first_head", "always") == "always";
}

std::optional<model::LoraConfig> lora(const Json& wanted) {
  if (wanted.is_null()) return std::nullopt;
  model::LoraConfig lora;
  lora.rank = wanted.value("rank", 4);
  lora.alpha = wanted.value("alpha", 8.0);
  lora.targets = wanted.value("targets", lora.targets);
  lora.scope = named<model::LoraScope>(wanted, "scope", {"both", "trunk", "heads"});
  lora.train_heads = wanted.value("train_heads", false);
  return lora;
}

test::StageSetup setup_of(const Json& given) {
  test::StageSetup setup;
  setup.stage = named<StageKind>(given, "stage", {"baseline", "critic", "verifiable", "rho1"});
  setup.lora = lora(given.value("lora", Json()));
  setup.joint = given.value("joint", false);
  if (given.contains("frozen")) setup.frozen_seed = given["frozen"].get<std::uint64_t>();
  setup.value_head.type = model::value_head_type(given.value("value_head", "mlp"));
  setup.batch_size = given.value("batch_size", 8);
  setup.row_stride = given.value("row_stride", 0);
  if (given.contains("ema"))
    setup.ema = {given["ema"][0], given["ema"][1], given["ema"][2], 0.1, 10};
  const Json options = given.value("options", Json::object());
  if (setup.stage == StageKind::critic) read_critic(options, setup);
  if (setup.stage == StageKind::verifiable) read_verifiable(options, setup);
  if (setup.stage == StageKind::rho1) read_rho1(options, setup);
  return setup;
}

std::vector<float> signal(const Json& row, const char* key) {
  std::vector<float> values;
  if (row.contains(key))
    for (const Json& value : row[key])
      values.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN()
                                       : value.get<float>());
  return values;
}

std::vector<test::StageSample> samples_of(const Json& given) {
  std::vector<test::StageSample> samples;
  for (const Json& sample : given["samples"]) {
    test::StageSample rows;
    for (const Json& row : sample)
      rows.push_back({.ids = row["ids"],
                      .prompt = row.value("prompt", 0),
                      .reward = row.value("reward", 0.0F),
                      .sample_id = samples.size(),
                      .role = row.value("role", std::uint8_t{0}),
                      .value = signal(row, "value"),
                      .ref_nll = signal(row, "ref_nll")});
    samples.push_back(std::move(rows));
  }
  return samples;
}

Named frozen_weights(const models::ModelSource& source) {
  std::vector<layout::UnitSpec> units = model::model_units(source.config);
  units.push_back(model::value_head_unit(*source.value_head, source.config.dim));
  Named named;
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params) {
      const Tensor values = at::empty({param.numel()}, at::kFloat);
      source.fill(param, 0, values);
      named.emplace_back(param.name, values.view(param.shape));
    }
  return named;
}

Named gradients(test::StageRun& run) {
  Named named;
  for (const parallel::UnitState& state : run.states())
    for (std::size_t p = 0; state.grad.defined() && p < state.plan.trained.params().size(); ++p) {
      const layout::ParamSpec& param = state.plan.trained.params()[p];
      const layout::Range range = state.plan.trained.param_range(p);
      named.emplace_back(param.name,
                         state.grad.narrow(0, range.begin, range.size()).view(param.shape));
    }
  return named;
}

Json list_of(const Tensor& values) {
  if (!values.defined()) return nullptr;
  const Tensor wide = values.to(at::kDouble).contiguous();
  return std::vector<double>(wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
}

Json views_of(test::StageRun& run, const training::StepInput& input) {
  Json views = Json::array();
  run.model().objective().begin_step(input.facts, input.micro_batches);
  for (const training::DeviceBatch& batch : input.micro_batches) {
    run.model().runtime().begin_evaluation(/*kind=*/2);
    const training::TokenMarks marks = run.model().objective().view(batch);
    Json selected = Json::array();
    for (const Tensor& head : marks.selected_by_head_N) selected.push_back(list_of(head));
    views.push_back({{"weight", list_of(marks.weight_N)},
                     {"value", list_of(marks.value_N)},
                     {"selected", selected}});
  }
  return views;
}

void probe(const std::filesystem::path& given_path, const std::filesystem::path& out) {
  const Json given = read_json(given_path);
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  const test::StageSetup setup = setup_of(given);
  test::StageRun run(setup, {gather.get(), reduce.get()});
  const std::vector<test::StageSample> samples = samples_of(given);
  std::filesystem::create_directories(out);
  Named weights;
  run.model().runtime().gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
    weights.emplace_back(param.name, whole.clone());
  });
  test::write_tensors(out / "weights.safetensors", weights);
  if (setup.frozen_seed)
    test::write_tensors(out / "frozen.safetensors", frozen_weights(run.frozen_source()));
  Json report;
  report["views"] = views_of(run, run.deal(samples));
  const training::StepResult result = run.step(samples);
  report["loss"] = result.loss;
  report["grad_norm"] = result.grad_norm;
  report["applied"] = result.applied;
  report["bad"] = result.bad;
  for (const auto& [name, value] : result.metrics) report["metrics"][name] = value;
  report["ema"] = list_of(run.ema().state_3());
  test::write_tensors(out / "grads.safetensors", gradients(run));
  std::ofstream(out / "step.json") << report.dump() << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (!test::limit_simd_by_environment()) return 1;
  if (argc != 3) {
    std::cerr << "wmtp_stage_probe CASE.json DIR\n";
    return 1;
  }
  try {
    probe(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "wmtp_stage_probe: " << error.what() << "\n";
    return 1;
  }
}
