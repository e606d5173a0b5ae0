#include "wmtp/run/report/system_report.h"

#include <algorithm>
#include <cmath>

#include "wmtp/run/report/run_memory.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tracking/system/gpu_reader.h"
#include "wmtp/tracking/system/host_reader.h"

namespace wmtp::run {
namespace {

using tracking::SystemValue;

constexpr std::size_t kRanksByName = 8;

// Digits that say nothing would be most of a line of metrics.jsonl.
double rounded_reading(double value) {
  return std::round(value * 1e3) / 1e3;
}

tracking::SystemSampler::Read machine_reader(const config::Config& config, c10::Device device) {
  const auto host =
      std::make_shared<tracking::HostReader>(tracking::HostFolders{.run = config.runtime.run_dir});
  if (!device.is_cuda()) return [host](tracking::SystemReading& reading) { host->read(reading); };
  const auto gpu = std::make_shared<tracking::GpuReader>(
      cuda_tables().services.device_info(device.index()).uuid);
  return [host, gpu](tracking::SystemReading& reading) {
    host->read(reading);
    gpu->read(reading);
  };
}

}  // namespace

SystemNumbers::SystemNumbers(comm::Communicator& group, const training::Metrics& memory,
                             const training::Metrics& comm, const tracking::SystemSummary& summary)
    : num_measured_(memory.size() + 2 * comm.size()), fresh_(summary.fresh) {
  std::vector<RankNumber> mine;
  for (const auto& [name, value] : memory) mine.push_back({name, value, Reduction::maximum});
  for (const auto& [name, value] : comm) {
    mine.push_back({name, value, Reduction::mean});
    mine.push_back({name + "_max", value, Reduction::maximum});
  }
  for (std::size_t k = 0; k < tracking::kNumSystemValues; ++k) {
    const auto value = static_cast<SystemValue>(k);
    const std::string name = tracking::system_metric(value);
    mine.push_back({name, summary.mean[value], Reduction::mean});
    mine.push_back({name + "_max", summary.max[value], Reduction::maximum});
  }
  numbers_ = RankNumbers(group, std::move(mine));
}

training::Metrics SystemNumbers::measured() {
  return numbers_.reduced(0, num_measured_);
}

training::Metrics SystemNumbers::readings() {
  if (!fresh_) return {};
  training::Metrics found = numbers_.reduced(num_measured_);
  const auto& rows = numbers_.rows();
  for (std::size_t rank = 0; rank < std::min(rows.size(), kRanksByName); ++rank)
    for (std::size_t k = tracking::kFirstGpuValue; k < tracking::kNumSystemValues; ++k) {
      const double mean = rows[rank][num_measured_ + 2 * k];  // beside each stands its maximum
      if (!tracking::is_absent(mean))
        found.emplace_back(
            tracking::gpu_metric(static_cast<SystemValue>(k), static_cast<int>(rank)), mean);
    }
  for (auto& [name, value] : found) value = rounded_reading(value);
  return found;
}

SystemReport::SystemReport(const config::Config& config, c10::Device device)
    : device_(device),
      sampler_(machine_reader(config, device), config.tracking.system_interval_s) {}

SystemNumbers SystemReport::gather(comm::Communicator& group, const training::Metrics& comm) {
  return {group, report_memory(device_), group.world() > 1 ? comm : training::Metrics(),
          sampler_.take()};
}

}  // namespace wmtp::run
