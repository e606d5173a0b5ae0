// One reading of the machine as a JSON object, names as in metrics.jsonl, null where there is
// nothing: wmtp_system_probe [UUID of a GPU]. tests/gpu/system.sh compares it with nvidia-smi.
#include <chrono>
#include <iostream>
#include <thread>

#include "wmtp/core/json.h"
#include "wmtp/tracking/system/gpu_reader.h"
#include "wmtp/tracking/system/host_reader.h"

int main(int argc, char** argv) {
  using namespace wmtp;
  tracking::SystemReading reading;
  tracking::HostReader host({.run = "."});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the share of a time
  host.read(reading);
  if (argc > 1) tracking::GpuReader(argv[1]).read(reading);
  OrderedJson line;
  for (std::size_t k = 0; k < tracking::kNumSystemValues; ++k) {
    const auto value = static_cast<tracking::SystemValue>(k);
    line[tracking::system_metric(value)] =
        tracking::is_absent(reading[value]) ? OrderedJson() : OrderedJson(reading[value]);
  }
  std::cout << line.dump() << "\n";
  return 0;
}
