// LoRA adapters of one block as views into its trained buffer, hung onto the projections they
// belong to.
#pragma once
#include <string>

#include "wmtp/model/batch.h"
#include "wmtp/model/block.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/weight_access.h"

namespace wmtp::model {

struct AdapterSource {
  const ModelConfig* config = nullptr;
  const LoraConfig* lora = nullptr;
  std::string block;                 // module of the block, e.g. model.layers.3
  UnitBuffers buffers;               // adapters in buffers.trained, in the order of lora_units
  Tensor grad;                       // undefined: no backward pass
  const Dropout* dropout = nullptr;  // null: none (evaluation)
  Tensor rows_M;                     // rows that go on after the attention; undefined: all
};

// Does nothing for a unit that has no adapters.
void attach_adapters(const AdapterSource& source, BlockParams& params);

// W + s B A, summed in fp32 (fp64 where W is) and rounded once to W's dtype: the base with its
// adapter built in.
Tensor merged(const Tensor& weight_OI, const Tensor& a_RI, const Tensor& b_OR, double scale);

}  // namespace wmtp::model
