// The operations of one block and of one head's loss, forward and backward, as model/block.cpp,
// model/float8_projection.cpp and kernels/linear_cross_entropy.cpp run them.
#pragma once
#include <vector>

#include "wmtp/kernels/float8.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/block.h"
#include "wmtp/model/model_config.h"
#include "wmtp/run/plan/block_memory.h"
#include "wmtp/run/plan/speed/operation_costs.h"

namespace wmtp::run {

// The low-rank paths of projections that read one input.
struct AdapterWork {
  struct Part {
    double outputs = 0, rank = 0;
  };
  double inputs = 0;
  bool on_rows = false;  // the projections are behind the attention
  std::vector<Part> parts = {};
};

struct BlockWork {
  model::ModelConfig model;
  double tokens = 0;  // through the attention
  double rows = 0;    // behind it: a head's targets
  double span = 0;
  bool learns = false;  // the block's own matrices get gradients
  std::vector<AdapterWork> adapters = {};
  bool drops_out = false;  // inputs of adapters
  ReadInputs reads = {};   // by the backward
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
  bool weights_in_bytes = false;  // float8: matrices are gathered quantised
};

// Whether the unit's matrices learn and come in bytes, and its adapters, from its parameters (as
// planned_units has them).
void set_learning(const layout::UnitSpec& unit, BlockWork& work);

// `keeps`: its backward follows, and finds the inputs.
void block_forward(const BlockWork& work, bool keeps, OperationCosts& costs);
void block_backward(const BlockWork& work, model::Recompute level, OperationCosts& costs);

struct LossWork {
  double rows = 0, vocabulary = 0, width = 0;
  bool backward = true, learns = true;  // the unembedding gets a gradient
};
void loss(const LossWork& work, OperationCosts& costs);

}  // namespace wmtp::run
