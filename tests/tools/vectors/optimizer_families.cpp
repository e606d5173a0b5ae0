#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <string_view>

#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/optim/clip.h"
#include "wmtp/optim/lr_schedule.h"

namespace wmtp::vectors {
namespace {

// All numbers of nested lists and objects, in order.
void collect(const Json& json, std::vector<double>& out) {
  if (!json.is_structured()) return out.push_back(number(json));
  for (const Json& entry : json) collect(entry, out);
}

Json scaled(const Json& json, double factor) {
  if (!json.is_structured()) return to_json(number(json) * factor);
  Json out = json;
  for (Json& entry : out) entry = scaled(entry, factor);
  return out;
}

Json grad_clip(const Json& in) {
  std::vector<double> flat;
  collect(in.at("grads"), flat);
  const Tensor squared_norm = at::zeros({}, at::kDouble);
  kernels::add_squared_norm(at::tensor(flat, at::kDouble), squared_norm);
  const double factor =
      optim::clip_scale(squared_norm, number(in, "limit", 0), at::kDouble).item<double>();
  return {{"grad_norm_pre_clip", std::sqrt(squared_norm.item<double>())},
          {"grads", scaled(in["grads"], factor)}};
}

optim::ScheduleType schedule_type(std::string_view name) {
  using optim::ScheduleType;
  const std::map<std::string_view, ScheduleType> types = {
      {"constant", ScheduleType::constant},
      {"cosine", ScheduleType::cosine},
      {"linear", ScheduleType::linear},
      {"exponential", ScheduleType::exponential},
      {"plateau", ScheduleType::plateau}};
  return types.at(name);
}

Json lr_schedule(const Json& in) {
  optim::Schedule schedule;
  schedule.type = schedule_type(text(in, "type", "constant"));
  schedule.total_steps = static_cast<std::int64_t>(number(in.at("steps_total")));
  schedule.warmup_steps = optim::warmup_steps(
      schedule.total_steps, 0, static_cast<std::int64_t>(number(in, "warmup_steps", 0)));
  schedule.min_ratio = number(in, "min_lr_ratio", 0);
  Json rates = Json::array();
  for (const double step : numbers(in.at("steps")))
    rates.push_back(
        optim::learning_rate(schedule, static_cast<std::int64_t>(step), number(in, "base", 1)));
  return {{"lr", rates}};
}

}  // namespace

Families optimizer_families() {
  return {{"grad_clip", grad_clip}, {"lr_schedule", lr_schedule}};
}

}  // namespace wmtp::vectors
