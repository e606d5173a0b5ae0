// What is kept of a run that has ended in order, once the server has all of it.
#pragma once
#include "wmtp/tracking/mlflow/spool/spool.h"
#include "wmtp/tracking/mlflow/spool/step_set.h"

namespace wmtp::tracking::mlflow {

// Removes the segments of a run whose end.json says FINISHED; run.json keeps up to which step each
// key is there, should the run be made longer. A failure is a message: nothing depends on it.
void forget_finished_run(Spool& spool, const HeldSteps& held);

}  // namespace wmtp::tracking::mlflow
