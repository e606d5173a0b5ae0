// How long the rest of a run takes: remaining steps * median of the last 50 step times, plus
// remaining validations and saves * their means. Numbers only; no clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace wmtp::tracking {

struct RemainingWork {
  std::int64_t num_steps = 0, num_validations = 0, num_saves = 0;
};

class EtaEstimator {
 public:
  static constexpr std::int64_t kFirstShown = 10;  // steps before the first estimate
  static constexpr std::size_t kWindow = 50;

  void add_step(double seconds);
  void add_validation(double seconds) { validation_.add(seconds); }
  void add_save(double blocked_seconds) { save_.add(blocked_seconds); }  // while no step ran

  // Seconds; none before kFirstShown steps of this process.
  std::optional<double> remaining_s(const RemainingWork& work) const;

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
    void add(double value) { sum += value, ++count; }
    double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };

  std::deque<double> step_times_s_;
  std::int64_t num_steps_ = 0;
  Mean validation_, save_;
};

}  // namespace wmtp::tracking
