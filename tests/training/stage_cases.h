// The stages in all their modes, as the laws are tested on them, and what a run leaves behind to
// be compared.
#pragma once
#include <string>
#include <vector>

#include "support/runs/stage_run.h"

namespace wmtp::test {

struct StageCase {
  std::string name;
  StageSetup setup;
  bool cached = false;   // values and reference losses come with the rows
  bool pairs = false;    // samples are pairs
  bool grouped = false;  // weights depend on who shares a micro-batch
};
std::vector<StageCase> stage_cases();

// The case's samples in steps of these sizes.
using StageSteps = std::vector<std::vector<StageSample>>;
StageSteps steps_of(const StageCase& one, const std::vector<int>& sizes);

// What the steps of a run in one process gave, whole units.
struct StageTrace {
  std::vector<training::StepResult> results;
  std::vector<Tensor> first_grads, start, end;
  training::Numbers validation;
};
StageTrace run_alone(const StageSetup& setup, const StageSteps& steps);

void expect_same_results(const training::StepResult& found, const training::StepResult& expected);
void expect_same_numbers(const training::Numbers& found, const training::Numbers& expected);
// Two runs in one process: results, gradients of the first step, weights after the last.
void expect_same(const StageTrace& found, const StageTrace& expected);

}  // namespace wmtp::test
