#include "wmtp/cli/doctor/machine_checks.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/timex.h>

#include <ctime>
#include <thread>

#include "wmtp/cli/versions.h"
#include "wmtp/core/procfs.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::cli {
namespace {

rlim_t soft_limit(__rlimit_resource_t resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return limit.rlim_cur;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

}  // namespace

Check check_libtorch(const Versions& versions) {
  Check check{Health::ok, "LibTorch", versions.libtorch_found, "", {}};
  if (versions.libtorch_found == versions.libtorch_built) return check;
  check.health = Health::fail;
  check.fact =
      fmt::format("found {}, built with {}", versions.libtorch_found, versions.libtorch_built);
  check.fix =
      fmt::format("install torch=={} where the program looks for it", versions.libtorch_built);
  return check;
}

Check check_gpus(const Versions& versions, int num_installed) {
  Check check{Health::ok, "GPU", "", "", {}};
  if (!versions.plugin_loaded) {
    const bool any = num_installed > 0;
    const std::string count =
        any ? fmt::format("{} installed, none usable", num_installed) : std::string("none in use");
    if (any) check.health = Health::warn;
    if (versions.driver_found) {
      check.fact = fmt::format("{}: the driver is there, the GPU plugin cannot be used", count);
      check.details.push_back(versions.plugin_note);
      if (any)
        check.fix = "install the CUDA wheels of torch beside it, or a build with the GPU plugin";
    } else {
      check.fact = fmt::format("{}: there is no NVIDIA driver (libcuda.so.1 is not found)", count);
      if (any) check.fix = "install the driver's libraries; a container gets them with --gpus all";
    }
    return check;
  }
  const CudaServices& services = cuda_tables().services;
  const int count = services.device_count();
  check.fact = fmt::format("{} visible; {}", count, versions.plugin_note);
  for (int index = 0; index < count; ++index) {
    const GpuInfo gpu = services.device_info(index);
    check.details.push_back(fmt::format("{}: {}, {:.1f} GiB, compute capability {}.{}, {}", index,
                                        gpu.name, static_cast<double>(gpu.total_bytes) / kGib,
                                        gpu.major, gpu.minor, gpu.uuid));
  }
  return check;
}

Check check_cores(const comm::LaunchEnv& launch) {
  const int usable = comm::affinity_cores();
  const int threads = comm::choose_threads(launch, 0, usable);
  Check check{
      Health::ok,
      "CPU",
      fmt::format("{} cores, {} usable here, {} threads per rank, {}",
                  std::thread::hardware_concurrency(), usable, threads, at::get_cpu_capability()),
      "",
      {}};
  if (launch.local_world > usable) {
    check.health = Health::warn;
    check.fix = fmt::format("{} ranks share {} cores: start fewer, or allow more cores",
                            launch.local_world, usable);
  } else if (threads * launch.local_world > usable) {
    check.health = Health::warn;
    check.fix = fmt::format("{} ranks x {} threads share {} cores: set OMP_NUM_THREADS={}",
                            launch.local_world, threads, usable, usable / launch.local_world);
  }
  return check;
}

Check check_memory() {
  const std::int64_t total = procfs_number("/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  const std::int64_t available = available_host_bytes();
  std::string limit_note;
  if (const auto limit = procfs_number("/sys/fs/cgroup/memory.max"))
    limit_note = fmt::format(", cgroup limit {:.1f}", static_cast<double>(*limit) / kGib);
  Check check{Health::ok,
              "memory",
              fmt::format("{:.1f} GiB available of {:.1f}{}", static_cast<double>(available) / kGib,
                          static_cast<double>(total) / kGib, limit_note),
              "",
              {}};
  if (static_cast<double>(available) < 2 * kGib) {
    check.health = Health::warn;
    check.fix = "end other programs; loading a model needs at least its size in memory";
  }
  return check;
}

Check check_limits() {
  const rlim_t files = soft_limit(RLIMIT_NOFILE);
  const rlim_t processes = soft_limit(RLIMIT_NPROC);
  const auto pids = procfs_number("/sys/fs/cgroup/pids.max");
  Check check{
      Health::ok,
      "limits",
      fmt::format("{} open files, {} processes and threads{}", limit_text(files),
                  limit_text(processes), pids ? fmt::format(", cgroup pids {}", *pids) : ""),
      "",
      {}};
  if (files < 1024 || processes < 1024 || pids.value_or(1 << 20) < 512) check.health = Health::warn;
  if (files < 128 || processes < 128 || pids.value_or(1 << 20) < 64) check.health = Health::fail;
  if (check.health != Health::ok)
    check.fix = "raise them: `ulimit -n 65536`, `ulimit -u 65536`, the container's pids limit";
  return check;
}

Check check_clock() {
  const std::time_t now = std::time(nullptr);
  timex state{};
  const bool is_synchronised = ::adjtimex(&state) != TIME_ERROR;
  constexpr std::time_t kBeginOf2025 = 1735689600;
  Check check{Health::ok,
              "clock",
              is_synchronised ? "synchronised" : "not known to be synchronised",
              "",
              {}};
  if (now < kBeginOf2025) {
    check.health = Health::warn;
    check.fact = "the date lies in the past";
    check.fix = "set the clock: certificates and signed requests depend on it";
  } else if (!is_synchronised) {
    check.health = Health::warn;
    check.fix = "start chrony or systemd-timesyncd; records of several nodes are compared by time";
  }
  return check;
}

Check check_launcher(const comm::LaunchEnv& launch) {
  Check check{Health::ok, "launcher",
              fmt::format("{}: rank {} of {}", name_of(launch.source), launch.rank, launch.world),
              "", comm::describe(launch)};
  if (!launch.notices.empty()) {
    check.health = Health::warn;
    check.fix = launch.notices.front();
  }
  return check;
}

}  // namespace wmtp::cli
