// The batches of a step at addresses that stay, for work that is recorded (step_graphs.h): of other
// steps of the same shapes only the numbers are copied there. All that is on the device, none of
// what batches have on the host: Objective::prepare() comes first.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "wmtp/training/objective.h"

namespace wmtp::training {

// All that is passed to kernels by value and follows from the batches: steps of one key differ in
// numbers of the device alone.
using ShapeKey = std::vector<std::int64_t>;
ShapeKey shape_key(std::span<const DeviceBatch> batches);

class StaticInput {
 public:
  // Copies of what is on the device. REQUIRES facts with their numbers, and no loss scale.
  StaticInput(const StepFacts& facts, std::span<const DeviceBatch> batches);

  // STREAM. REQUIRES the shapes that were copied at first.
  void copy(const StepFacts& facts, std::span<const DeviceBatch> batches);

  const StepFacts& facts() const { return facts_; }
  // As a step is to read them, which may derive more of the documents and keep it: to be called for
  // each.
  std::span<const DeviceBatch> batches();

 private:
  StepFacts facts_;
  std::vector<DeviceBatch> batches_;
};

}  // namespace wmtp::training
