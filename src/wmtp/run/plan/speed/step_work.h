// The operations of a step on one rank, unit by unit: what predict_step times.
#pragma once
#include <vector>

#include "wmtp/run/plan/speed/expected_speed.h"
#include "wmtp/run/plan/speed/operation_costs.h"

namespace wmtp::run {

struct UnitWork {
  OperationSeconds forward, backward;  // of a micro-batch
  double gather_bytes = 0;             // the whole unit in the compute dtype, where it is gathered
  double reduce_bytes = 0;             // its whole gradient on the wire
  double trained = 0;                  // parameters
  double in_bytes = 0;                 // of them in matrices that are gathered in float8
  bool kept = false, head = false;     // as UnitModel's
};

struct StepWork {
  std::vector<UnitWork> units;  // in the order of predict_step
  OperationSeconds loss;        // of a model without head blocks
  OperationSeconds frozen;      // the model beside it
  OperationSeconds value;       // the value head
  OperationSeconds update;      // of a step
  double width = 0;             // of the model
};

// `group`: ranks that hold every unit together.
StepWork step_work(const SpeedRequest& request, const DeviceModel& device, int group);

}  // namespace wmtp::run
