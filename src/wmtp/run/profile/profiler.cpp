#include "wmtp/run/profile/profiler.h"

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "wmtp/run/profile/trace_file.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::run {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::profiler::impl::ActivityType;

std::set<ActivityType> activities_of(c10::Device device) {
  if (device.is_cuda()) return {ActivityType::CPU, ActivityType::CUDA};
  return {ActivityType::CPU};
}

// Kineto shows scopes on the GPU's rows once more, over the kernels that they started.
bool is_counted(const KinetoEvent& event) {
  return event.activityType() !=
         static_cast<std::uint8_t>(libkineto::ActivityType::GPU_USER_ANNOTATION);
}

std::vector<ProfiledSpan> spans_of(const std::vector<KinetoEvent>& events) {
  std::vector<ProfiledSpan> spans;
  for (const KinetoEvent& event : events) {
    if (!is_counted(event)) continue;
    const bool on_host = event.deviceType() == c10::DeviceType::CPU;
    if (on_host && event.startThreadId() != at::RecordFunction::currentThreadId()) continue;
    const bool is_scope = event.scope() == static_cast<std::uint8_t>(at::RecordScope::USER_SCOPE);
    using enum ProfiledSpan::Kind;
    const ProfiledSpan::Kind kind = !on_host ? device : is_scope ? scope : operation;
    spans.push_back({event.name(), kind, static_cast<std::int64_t>(event.startNs()),
                     static_cast<std::int64_t>(event.endNs())});
  }
  return spans;
}

}  // namespace

Profiler::Profiler(c10::Device device) : device_(device) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const auto activities = activities_of(device);
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(
      config, activities, {at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
}

Profiler::~Profiler() {
  if (running_) torch::autograd::profiler::disableProfiler();
}

std::vector<ProfiledSpan> Profiler::finish(const std::filesystem::path& trace, unsigned mode) {
  if (device_.is_cuda()) cuda_tables().services.synchronize();
  running_ = false;
  const auto result = torch::autograd::profiler::disableProfiler();
  std::vector<ProfiledSpan> spans = spans_of(result->events());  // first: save() empties the trace
  write_trace(trace, mode, [&](const std::string& path) { result->save(path); });
  return spans;
}

}  // namespace wmtp::run
