// Readings of the machine at regular times, by a thread of its own, and what they come to between
// two reports. Nothing of it reaches training: a reading that fails is left out and told once.
#pragma once
#include <functional>
#include <memory>
#include <thread>

#include "wmtp/tracking/system/system_values.h"

namespace wmtp::tracking {

struct SystemSummary {
  SystemReading mean, max;  // a value that no reading had is absent
  bool fresh = false;       // false: nothing was read since the last take(); the last reading again
};

class SystemSampler {
 public:
  using Read = std::function<void(SystemReading&)>;
  // OWNS `read`, which its thread calls at once and then every `interval_s`. Where no thread can be
  // started there are no readings.
  SystemSampler(Read read, double interval_s);
  // BLOCKS until the reading that is being made has ended, but not for long: a driver or a file
  // system that hangs keeps the thread, not the run.
  ~SystemSampler();
  SystemSampler(const SystemSampler&) = delete;
  SystemSampler& operator=(const SystemSampler&) = delete;

  // Of all readings since the last call. Does not wait for a reading.
  SystemSummary take();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace wmtp::tracking
