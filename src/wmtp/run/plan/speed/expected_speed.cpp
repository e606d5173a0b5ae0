#include "wmtp/run/plan/speed/expected_speed.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/run/plan/predict_step.h"
#include "wmtp/run/plan/run_flops.h"
#include "wmtp/run/plan/speed/ring.h"
#include "wmtp/run/plan/speed/step_work.h"

namespace wmtp::run {
namespace {

SpeedRequest completed(SpeedRequest request, const DeviceModel& device) {
  WMTP_CHECK(request.shape.tokens > 0 && request.micro_batches > 0, "a step has tokens");
  const auto heads = static_cast<double>(request.shape.model.n_future);
  if (request.span <= 0) request.span = static_cast<double>(request.shape.tokens);
  if (request.targets_per_token <= 0) request.targets_per_token = heads;
  request.targets_per_token = std::min(request.targets_per_token, heads);
  if (request.ranks_per_node <= 0)
    request.ranks_per_node = device.is_cpu() ? request.shape.world : device.devices_per_node;
  return request;
}

Sharding sharding_of(const MemoryRequest& shape, int group) {
  Sharding sharding{shape.world, group, false};
  // A frozen trunk has no backward that would gather it again.
  sharding.gathers_once =
      shape.parallel.strategy == parallel::Strategy::shard_grad_op || shape.frozen;
  return sharding;
}

StepModel step_of(const SpeedRequest& request, const DeviceModel& device, const StepWork& work,
                  const Sharding& sharding) {
  const parallel::ParallelOptions& options = request.shape.parallel;
  StepModel step;
  step.sharding = sharding;
  step.backend = device.is_cpu() ? BackendModel::gloo() : BackendModel::nccl();
  step.prefetch_forward = options.prefetch_forward;
  step.prefetch_backward = options.prefetch_backward;
  step.micro_batches = request.micro_batches;
  step.no_sync = options.no_sync;
  for (const UnitWork& unit : work.units)
    step.units.push_back({.gather_bytes = unit.gather_bytes,
                          .reduce_bytes = unit.reduce_bytes,
                          .forward_s = unit.forward.elapsed(device, work.width),
                          .backward_s = unit.backward.elapsed(device, work.width),
                          .kept = unit.kept,
                          .head = unit.head});
  step.units.front().forward_s += work.frozen.elapsed(device, work.width);
  step.loss_s = work.loss.elapsed(device, work.width) + work.value.elapsed(device, work.width);
  step.update_s = work.update.elapsed(device, work.width);
  set_links({.node = device.in_node,
             .network = device.between_nodes,
             .ranks_per_node = request.ranks_per_node},
            step);
  return step;
}

// Seconds of a step by what they are; what is left are gaps.
std::vector<ExpectedSpeed::Part> parts_of(const StepWork& work, const DeviceModel& device,
                                          double micro_batches, const StepPrediction& step) {
  OperationSeconds model = work.loss;
  for (const UnitWork& unit : work.units) {
    model += unit.forward;
    model += unit.backward;
  }
  // Where steps were measured to be faster than their operations one by one, these are too.
  model = model * (micro_batches / std::max(1.0, device.busy.at(work.width)));
  std::vector<ExpectedSpeed::Part> parts{
      {"matrix products", model.products},
      {"attention", model.attention},
      {"element-wise passes", model.passes},
      {"frozen model", work.frozen.elapsed(device, work.width) * micro_batches},
      {"value head", work.value.elapsed(device, work.width) * micro_batches},
      {"update", work.update.elapsed(device, work.width)},
      {"waiting for other ranks", step.gather_wait_s + step.reduce_wait_s + step.cross_wait_s},
      {"communication beside computation", step.slowed_s}};
  double sum = 0;
  for (const ExpectedSpeed::Part& part : parts) sum += part.seconds;
  parts.push_back({"between operations", std::max(0.0, step.step_s - sum)});
  std::erase_if(parts, [&step](const ExpectedSpeed::Part& part) {
    return part.seconds <= 1e-9 * step.step_s;
  });
  return parts;
}

// What no GPU was measured at, in words; empty where the shape needs nothing of it.
std::string guessed_rates(const MemoryRequest& shape, const DeviceModel& device) {
  const auto percent = [](const RateCurve& rate, double peak) {
    return 100 * rate.points().back().per_s / peak;
  };
  std::string words;
  if (shape.float8 != kernels::Float8Recipe::off)
    words += fmt::format(
        "; never measured: products in float8 at {:.0f} % of the published {:.0f} TFLOP/s, "
        "quantising at {:.0f} % of the memory's rate, as copies",
        percent(device.float8_products, device.peak_float8_flops), device.peak_float8_flops / 1e12,
        percent(device.pass(Pass::copy), device.memory_bytes_per_s));
  if (shape.recipe == optim::Recipe::int8 && !device.is_cpu())
    words += fmt::format(
        "; never measured: AdamW with 8-bit moments at {:.0f} % of the memory's rate, as with bf16 "
        "ones",
        percent(device.pass(Pass::adamw_8bit), device.memory_bytes_per_s));
  return words;
}

}  // namespace

ExpectedSpeed expected_speed(const SpeedRequest& wanted, const DeviceModel& device) {
  const SpeedRequest request = completed(wanted, device);
  const MemoryRequest& shape = request.shape;
  const int group = parallel::placement_of(shape.parallel, /*rank=*/0, shape.world).shard_world;
  const StepWork work = step_work(request, device, group);
  const StepPrediction step =
      predict_step(step_of(request, device, work, sharding_of(shape, group)));
  ExpectedSpeed speed;
  speed.step_s = step.step_s;
  speed.tokens_per_s_rank = static_cast<double>(shape.tokens) * request.micro_batches / step.step_s;
  speed.tokens_per_s = speed.tokens_per_s_rank * shape.world;
  speed.model_flops_per_token = model_flops_per_token(shape, request.span);
  speed.mfu = speed.model_flops_per_token * speed.tokens_per_s_rank / device.peak_flops;
  const std::string guessed = guessed_rates(shape, device);
  speed.estimated = !device.measured || !guessed.empty();
  speed.parts = parts_of(work, device, request.micro_batches, step);
  speed.basis = device.basis + guessed;
  return speed;
}

}  // namespace wmtp::run
