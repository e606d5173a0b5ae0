#include "wmtp/cli/plan/plan_device.h"

#include <fmt/format.h>

#include "wmtp/cli/rank_run.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/log.h"
#include "wmtp/run/plan/speed/calibrate.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::cli {
namespace {

c10::Device device_here(const config::Config& config) {
  const comm::LaunchEnv launch;
  try {
    return choose_device(launch, {std::string(config::name_of(config.runtime.device)), true});
  } catch (const Error& error) {
    throw Error(error.kind(), error.module(), error.fact(),
                "name the device that the run is for with --gpu");
  }
}

const run::DeviceModel* model_of_gpu_here(c10::Device device) {
  const std::string name = cuda_tables().services.device_info(device.index()).name;
  if (const run::DeviceModel* model = run::find_device(name)) return model;
  throw Error(ErrorKind::config, "plan",
              fmt::format("the speed of the GPU here ({}) is not known", name),
              "name one that is near to it with --gpu, and the memory with --memory-gib");
}

}  // namespace

PlanDevice::PlanDevice(const PlanFlags& flags, const config::Config& config)
    : ranks_per_node_(flags.ranks_per_node) {
  if (flags.memory_gib) memory_bytes_ = static_cast<std::int64_t>(*flags.memory_gib * 0x1p30);
  threads_ = static_cast<int>(config.runtime.threads);
  if (!flags.gpu.empty()) model_ = &run::device_model(flags.gpu);
  if (model_ && !model_->is_cpu()) {
    device_ = c10::Device(c10::DeviceType::CUDA, 0);
  } else {
    is_here_ = true;
    if (!model_) device_ = device_here(config);
    if (device_.is_cuda()) model_ = model_of_gpu_here(device_);
    if (!model_) model_ = &run::device_model("cpu");
  }
  calibrates_ = model_->is_cpu() && !flags.no_calibrate;
  if (ranks_per_node_ == 0 && !model_->is_cpu()) ranks_per_node_ = model_->devices_per_node;
}

run::SizingPlace PlanDevice::place() {
  run::SizingPlace place;
  place.device = device_;
  place.ranks_per_node = ranks_per_node_;
  if (!is_here_) place.named_gpu = model_->gpu();
  place.environment = comm::process_environment();
  place.memory_bytes = [this](const config::Config& config, int ranks) {
    return memory_of(config, ranks);
  };
  place.rates = [this](int ranks) -> const run::DeviceModel& { return rates_of(ranks); };
  return place;
}

std::string PlanDevice::rates_from() const {
  if (calibrates_) return "calibrated here";
  return model_->measured ? "measured table" : "estimated";
}

// As train has it (rank_memory), or what was named in its place; a configuration may set a limit.
std::int64_t PlanDevice::memory_of(const config::Config& config, int ranks_of_node) const {
  if (is_here_ && !memory_bytes_) return rank_memory(config, ranks_of_node, device_);
  std::int64_t bytes = memory_bytes_.value_or(static_cast<std::int64_t>(model_->memory_bytes));
  if (const auto limit = config.runtime.memory_limit_gib)
    bytes = std::min(bytes, static_cast<std::int64_t>(*limit * 0x1p30));
  return bytes;
}

const run::DeviceModel& PlanDevice::rates_of(int ranks_of_node) {
  if (!calibrates_) return *model_;
  const auto known = calibrated_.find(ranks_of_node);
  if (known != calibrated_.end()) return known->second;
  comm::LaunchEnv launch;
  launch.world = launch.local_world = ranks_of_node;
  const int threads = comm::choose_threads(launch, threads_, comm::affinity_cores());
  log::info("plan", "measuring the rates of {} thread{} of this machine for {} s", threads,
            threads == 1 ? "" : "s", run::kCalibrationS);
  return calibrated_
      .emplace(ranks_of_node, run::calibrate_cpu(threads, run::kCalibrationS, ranks_of_node))
      .first->second;
}

}  // namespace wmtp::cli
