// How the model reaches its weights and hands on its gradients, without knowing who keeps them: one
// process, or a sharded run that gathers them from all ranks.
#pragma once
#include "wmtp/core/strong_ids.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

// The flat buffers of one unit: parameters lie end to end in the order of its UnitSpec, trained
// ones in one buffer, frozen ones in the other. An absent part is an undefined tensor.
struct UnitBuffers {
  Tensor trained, frozen;
  // A block whose trained matrices come in float8 already, with one scale each: the matrices
  // (e4m3), which lie before all else, and 1 / s of each (fp32). `trained` then begins behind them.
  Tensor float8 = {}, inverse = {};
};

enum class Pass { forward, backward };

class WeightAccess {
 public:
  virtual ~WeightAccess() = default;
  // Weights in the compute dtype, valid until release. COLLECTIVE in sharded runs: all ranks
  // acquire the same units in the same order. STREAM: ready for work enqueued on the current
  // stream.
  virtual UnitBuffers acquire(UnitId unit, Pass pass) = 0;
  virtual void release(UnitId unit, Pass pass) = 0;
};

// Where the gradients of a unit's trained parameters are added up, same ranges as the weights;
// undefined where nothing is trained. `fresh`: nothing of this step is in it and what it holds
// means nothing, so each parameter's first writer writes, and everything must be written.
struct UnitGrad {
  Tensor flat;
  bool fresh = false;
};

class GradSink {
 public:
  virtual ~GradSink() = default;
  virtual UnitGrad open(UnitId unit) = 0;
  // This micro-batch has added everything it has to the unit. COLLECTIVE in sharded runs.
  virtual void close(UnitId unit) = 0;
};

// A unit held for the length of a scope.
class AcquiredUnit {
 public:
  AcquiredUnit(WeightAccess& access, UnitId unit, Pass pass)
      : access_(access), unit_(unit), pass_(pass), buffers_(access.acquire(unit, pass)) {}
  ~AcquiredUnit() { access_.release(unit_, pass_); }
  AcquiredUnit(const AcquiredUnit&) = delete;
  AcquiredUnit& operator=(const AcquiredUnit&) = delete;
  const UnitBuffers& buffers() const { return buffers_; }

 private:
  WeightAccess& access_;
  UnitId unit_;
  Pass pass_;
  UnitBuffers buffers_;
};

}  // namespace wmtp::model
