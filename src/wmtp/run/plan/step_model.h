// A model's shape as predict_step wants it: bytes from its parameters, seconds from its arithmetic.
#pragma once
#include "wmtp/model/model_config.h"
#include "wmtp/run/plan/predict_step.h"

namespace wmtp::run {

// What one device does of a model, all of whose parameters are trained.
struct ShapeTiming {
  model::ModelConfig model;
  double tokens = 0;                          // of a micro-batch on one rank, all of them targets
  double span = 0;                            // mean attention span (flops.h)
  double flops_per_s = 0;                     // executed
  double update_s_per_parameter = 0;          // of those a rank holds
  bool recomputes_blocks = false;             // every block but those of heads runs forward again
  double gather_bytes = 2, reduce_bytes = 4;  // of an element
};

// Units, loss and update; links and what else the caller chooses are left as they are by default.
StepModel step_model(const ShapeTiming& timing, const Sharding& sharding);

}  // namespace wmtp::run
