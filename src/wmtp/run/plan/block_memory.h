// What one block allocates for the tokens of a micro-batch, as model/block.cpp does, and what the
// loss and the value head do at a model's end. In float8 the operands of a product stand beside it
// in bytes: those of tokens, and the turned weight. N tokens, D hidden, F FFN width; all in bytes.
#pragma once
#include <cstdint>
#include <optional>

#include "wmtp/model/block.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {

// Inputs of a block's products that its backward reads, and therefore keeps or recomputes: not
// those of frozen matrices without adapters.
struct ReadInputs {
  bool qkv = false, gate_up = false, down = false;
  bool by_adapters = false;  // not by the matrices, which are frozen then
  bool operator==(const ReadInputs&) const = default;
};
ReadInputs read_inputs(const layout::UnitSpec& block);
inline constexpr ReadInputs kAllInputs{true, true, true};

// How a model is run.
struct WorkShape {
  model::ModelConfig model;
  DType dtype = kFloat32;  // of activations
  std::int64_t tokens = 0;
  bool on_gpu = false;
  std::optional<model::LoraConfig> lora = {};
  std::int64_t loss_chunk_rows = 0;                     // as TransformerOptions has it
  bool packed_cudnn = false;                            // attention over documents is cuDNN's
  std::int64_t stored_score_bytes = 0;                  // what that stores to be reproducible
  model::Recompute recompute = model::Recompute::none;  // of the block
  ReadInputs reads = kAllInputs;                        // by the block's backward
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
};

struct BlockMemory {
  std::int64_t hidden = 0;   // one [N, D]
  std::int64_t kept = 0;     // for the backward, the input included
  std::int64_t forward = 0;  // when its forward ends: every intermediate and the output
  // At its most, with what is kept of it, without the gradient that comes in. A head's runs on the
  // rows that have a target, and its input is the trunk's output, which is not counted.
  std::int64_t backward = 0, head_backward = 0;
};
BlockMemory block_memory(const WorkShape& shape);

// Kept by a block for its backward, per token. In float8 the inputs of trained matrices are bytes.
std::int64_t activation_bytes(const model::ModelConfig& config, model::Recompute level,
                              std::int64_t element_bytes, const ReadInputs& reads = kAllInputs,
                              bool float8 = false);

// Logits of one chunk of rows and the copy of the hidden states they come from.
std::int64_t loss_chunk_bytes(const WorkShape& shape, bool gradient);

// Beside the trunk's output: the normed stream, the head's layers, and with `learns` their
// gradients down to the normed stream's.
std::int64_t value_head_bytes(const WorkShape& shape, model::ValueHeadType type, bool learns);

}  // namespace wmtp::run
