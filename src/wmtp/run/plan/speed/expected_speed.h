// How fast a run will be, before it is: the operations of a step (step_work.h) at the rates of a
// device, on several ranks by predict_step.
#pragma once
#include <string>
#include <vector>

#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/speed/device_model.h"

namespace wmtp::run {

struct SpeedRequest {
  MemoryRequest shape;    // its tokens are those of a micro-batch on one rank
  int micro_batches = 1;  // of a step, on each rank
  double span = 0;        // mean attention span (flops.h); 0: that of one row of shape.tokens
  double targets_per_token = 0;  // of all heads together; 0: every token is a target of every head
  int ranks_per_node = 0;        // 0: as many as the device has in a node
};

struct ExpectedSpeed {
  struct Part {
    std::string what;
    double seconds = 0;  // of a step
  };
  double step_s = 0;
  double tokens_per_s = 0;  // of all ranks
  double tokens_per_s_rank = 0;
  double model_flops_per_token = 0;  // as MFU counts them (run_flops.h)
  double mfu = 0;
  bool estimated = false;   // a part of it at least was measured on no such device
  std::vector<Part> parts;  // they add up to step_s
  std::string basis;
};

// REQUIRES shape.tokens > 0. Error config where the ranks cannot be put into groups.
ExpectedSpeed expected_speed(const SpeedRequest& request, const DeviceModel& device);

}  // namespace wmtp::run
