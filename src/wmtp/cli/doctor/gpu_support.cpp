#include "wmtp/cli/doctor/gpu_support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "wmtp/cli/doctor/gpu_targets.h"
#include "wmtp/core/printable.h"

namespace wmtp::cli {
namespace {

constexpr int kLowest = kGpuMachineCode[0];

std::string capability_text(int major, int minor) {
  return fmt::format("{}.{}", major, minor);
}
std::string lowest_text() {
  return capability_text(kLowest / 10, kLowest % 10);
}

// 580 of "580.65.06"; 0 where it is no such number.
int driver_branch(const std::string& driver) {
  int branch = 0;
  std::from_chars(driver.data(), driver.data() + driver.size(), branch);
  return branch;
}

// How this GPU would run the plugin's kernels.
std::string code_for(const tracking::InstalledGpu& gpu) {
  const int capability = 10 * gpu.major + gpu.minor;
  if (capability < kLowest) return "too old";
  for (const int built : kGpuMachineCode)
    if (built / 10 == gpu.major && built <= capability) return "machine code of this generation";
  return "newer than the plugin: its driver compiles the PTX at the first start";
}

bool is_too_old(const tracking::InstalledGpu& gpu) {
  return 10 * gpu.major + gpu.minor < kLowest;
}

}  // namespace

std::string supported_gpus_text() {
  std::vector<std::string> machine_code;
  for (const int built : kGpuMachineCode) machine_code.push_back(fmt::format("sm_{}", built));
  return fmt::format(
      "compute capability {} and above (machine code {}; PTX compute_{} for newer), CUDA {}, "
      "driver "
      "{} or newer",
      lowest_text(), fmt::join(machine_code, ", "), kGpuPtx, kGpuCuda, kGpuDriver);
}

nlohmann::ordered_json supported_gpus_json() {
  nlohmann::ordered_json machine_code = nlohmann::ordered_json::array();
  for (const int built : kGpuMachineCode) machine_code.push_back(fmt::format("sm_{}", built));
  return {{"min_compute_capability", lowest_text()},
          {"machine_code", machine_code},
          {"ptx", fmt::format("compute_{}", kGpuPtx)},
          {"cuda", kGpuCuda},
          {"min_driver", kGpuDriver}};
}

Check check_gpu_support(const tracking::InstalledGpus& installed, bool wants_cpu) {
  Check check{Health::ok, "GPU support", supported_gpus_text(), "", {}};
  const Health bad = wants_cpu ? Health::warn : Health::fail;
  const int branch = driver_branch(installed.driver);
  if (branch > 0) check.details.push_back(fmt::format("driver {}", printable(installed.driver)));
  for (const tracking::InstalledGpu& gpu : installed.gpus) {
    check.details.push_back(fmt::format("{}: compute capability {}, {}", printable(gpu.name),
                                        capability_text(gpu.major, gpu.minor), code_for(gpu)));
    if (!is_too_old(gpu)) continue;
    check.health = bad;
    check.fact =
        fmt::format("{} has compute capability {}; the GPU plugin needs {} or above",
                    printable(gpu.name), capability_text(gpu.major, gpu.minor), lowest_text());
    check.fix =
        "use --device cpu, or hide this GPU (CUDA_VISIBLE_DEVICES names the others) or use a newer "
        "one (A100, RTX 30 or later)";
  }
  if (branch > 0 && branch < kGpuDriver) {
    check.health = bad;
    check.fact = fmt::format("driver {} is older than {}, which CUDA {} needs",
                             printable(installed.driver), kGpuDriver, kGpuCuda);
    check.fix = fmt::format("install NVIDIA driver {} or newer, or use --device cpu", kGpuDriver);
  }
  return check;
}

}  // namespace wmtp::cli
