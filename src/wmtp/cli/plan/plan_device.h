// The device that a plan is made for: one of this machine, or a GPU by its name.
#pragma once
#include <map>
#include <string>

#include "wmtp/cli/plan/plan_flags.h"
#include "wmtp/run/plan/sizing/run_sizer.h"

namespace wmtp::cli {

class PlanDevice {
 public:
  // Error config for a name that is not known, and for a device here whose rates nobody knows.
  // REQUIRES: before any other LibTorch call.
  PlanDevice(const PlanFlags& flags, const config::Config& config);

  // BORROWS this.
  run::SizingPlace place();
  const std::string& name() const { return model_->name; }
  const std::string& title() const { return model_->title; }
  // Where its speeds come from: `measured table`, `calibrated here` or `estimated`.
  std::string rates_from() const;

 private:
  std::int64_t memory_of(const config::Config& config, int ranks_of_node) const;
  const run::DeviceModel& rates_of(int ranks_of_node);

  c10::Device device_ = c10::Device(c10::DeviceType::CPU);
  bool is_here_ = false;                        // its memory is asked for
  const run::DeviceModel* model_ = nullptr;     // as it is known by name
  std::map<int, run::DeviceModel> calibrated_;  // by the ranks that share this machine
  std::optional<std::int64_t> memory_bytes_;    // --memory-gib
  int ranks_per_node_ = 0;
  bool calibrates_ = false;
  int threads_ = 0;  // of a rank; 0: its share of the cores
};

}  // namespace wmtp::cli
