#include "wmtp/run/plan/speed/calibrate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/run/plan/speed/cpu_probes.h"
#include "wmtp/run/plan/speed/loopback.h"
#include "wmtp/run/plan/speed/step_probe.h"
#include "wmtp/run/plan/speed/thread_clock.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::run {
namespace {

constexpr std::size_t kLeastCalls = 3;

class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(at::get_num_threads()) {
    at::set_num_threads(threads);
  }
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// A thread of its own is timed by the processor, so that a busy machine is measured as a quiet one.
double now(bool one_thread) {
  return one_thread ? thread_cpu_seconds() : seconds_since(Clock::time_point{});
}

// The median of the calls that fit into `budget_s`. The first call, which finds cold caches, is not
// counted.
double seconds_of_call(const CpuProbe& probe, double budget_s) {
  const bool one_thread = at::get_num_threads() == 1;
  probe.run();
  const auto begin = Clock::now();
  std::vector<double> took;
  while (took.size() < kLeastCalls || seconds_since(begin) < budget_s) {
    const double start = now(one_thread);
    probe.run();
    took.push_back(now(one_thread) - start);
  }
  std::ranges::nth_element(took, took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2));
  return std::max(took[took.size() / 2], 1e-9);
}

struct MeasuredCurves {
  std::vector<RatePoint> products, attention_forward, attention_backward;
  std::array<std::vector<RatePoint>, kNumPasses> passes;

  std::vector<RatePoint>& of(const CpuProbe& probe) {
    switch (probe.kind) {
      case CpuProbe::Kind::product:
        return products;
      case CpuProbe::Kind::attention_forward:
        return attention_forward;
      case CpuProbe::Kind::attention_backward:
        return attention_backward;
      case CpuProbe::Kind::pass:
        break;
    }
    return passes[static_cast<std::size_t>(probe.pass)];
  }
};

MeasuredCurves measure_probes(double seconds) {
  const std::vector<MakeProbe> probes = cpu_probes();
  const double budget_s = seconds / static_cast<double>(probes.size());
  MeasuredCurves curves;
  for (const MakeProbe& make : probes) {
    const CpuProbe probe = make();
    curves.of(probe).push_back({probe.size, probe.work / seconds_of_call(probe, budget_s)});
  }
  return curves;
}

// The other ranks are threads here, each with its own team of OpenMP.
MeasuredCurves measure_beside(int ranks, double seconds) {
  std::vector<std::jthread> others;
  for (int rank = 1; rank < ranks; ++rank)
    others.emplace_back([seconds] { measure_probes(seconds); });
  return measure_probes(seconds);
}

void set_curves(const MeasuredCurves& curves, DeviceModel& device) {
  device.products = device.full_products = curves.products;
  device.attention_forward = curves.attention_forward;
  device.attention_backward = curves.attention_backward;
  for (std::size_t pass = 0; pass < kNumPasses; ++pass) device.passes[pass] = curves.passes[pass];
  device.peak_flops = device.products.points().back().per_s;
  device.memory_bytes_per_s = device.pass(Pass::copy).points().front().per_s;
}

double expected_s(const StepProbe& probe, const DeviceModel& device) {
  return expected_speed(probe.request, device).step_s;
}

// What operations one by one do not show: caches that other operations have filled, memory that is
// asked for, the host between them. A step takes (its operations + calls * call_s) / busy; two
// steps of one width and other lengths have the same calls, which tells both numbers of that width.
void measure_steps(DeviceModel& device) {
  constexpr double kLeastBusy = 0.3, kMostBusy = 1.2, kTrialCallS = 1e-6;
  device.call_s = 0;
  device.busy = 1;
  const bool one_thread = at::get_num_threads() == 1;
  const StepProbes probes = run_step_probes([one_thread] { return now(one_thread); });
  const StepProbe &shorter = probes.narrow_short, &longer = probes.narrow;
  const double short_s = expected_s(shorter, device), long_s = expected_s(longer, device);
  const double narrow = std::clamp(
      (long_s - short_s) / std::max(longer.step_s - shorter.step_s, 1e-9), kLeastBusy, kMostBusy);
  DeviceModel trial = device;
  trial.call_s = kTrialCallS;
  const double calls = (expected_s(shorter, trial) - short_s) / kTrialCallS;
  device.call_s = std::max(0.0, shorter.step_s * narrow - short_s) / calls;
  const double wide =
      std::clamp(expected_s(probes.wide, device) / probes.wide.step_s, kLeastBusy, kMostBusy);
  const auto width = [](const StepProbe& probe) {
    return static_cast<double>(probe.request.shape.model.dim);
  };
  device.busy = RateCurve{{width(longer), narrow}, {width(probes.wide), wide}};
}

}  // namespace

// The steps have the machine for themselves, and so have the operations they are set beside.
DeviceModel calibrate_cpu(int threads, double seconds, int ranks) {
  WMTP_CHECK(threads > 0 && ranks > 0, "ranks have threads");
  const ThreadCount count(threads);
  keep_freed_host_memory();  // as every command does that runs steps
  const double probes_s = (ranks > 1 ? 0.3 : 0.6) * seconds;
  DeviceModel device = device_model("cpu");
  set_curves(measure_beside(1, probes_s), device);
  measure_steps(device);
  if (ranks > 1) {
    set_curves(measure_beside(ranks, probes_s), device);
    device.in_node = measure_loopback();
  }
  device.measured = true;
  device.basis = fmt::format("measured here: {} thread{}, {:.0f} GFLOP/s, {:.0f} GB/s", threads,
                             threads == 1 ? "" : "s", device.peak_flops / 1e9,
                             device.pass(Pass::adamw).points().back().per_s / 1e9);
  return device;
}

}  // namespace wmtp::run
