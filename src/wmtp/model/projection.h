// One linear map of a block, y = x W^T, as the forward and backward of the block call it. W may
// hold several projections one below the other (q|k|v, gate|up): one GEMM. LoRA adapters add s
// dropout(x) A^T B^T to the outputs of their own projection; those that read the same input have
// their A one below the other too. N rows, I inputs, O outputs, R rank of one adapter, S of a
// group.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/kernels/dropout.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

struct Adapter {
  Tensor b_OR;
  Tensor db_OR;  // where the gradient goes; undefined: no backward pass
  double scale = 1;
  std::int64_t first_output = 0;  // of the fused matrix
};

// Adapters of one input: x A^T, dA and dx are one product for all of them.
struct AdapterGroup {
  Tensor a_SI;                               // in the order of `adapters`
  Tensor da_SI;                              // as db_OR
  std::optional<kernels::DropoutMask> mask;  // on the input
  std::vector<Adapter> adapters;
};

struct Projection {
  Tensor weight_OI;
  Tensor dweight_OI;    // where the gradient goes; undefined: frozen, or no backward pass
  bool frozen = false;  // no pass has a dweight_OI
  std::vector<AdapterGroup> groups = {};  // one; with dropout one for each adapter
  bool adds = true;  // to the gradients' places, the adapters' too; off: they hold nothing yet
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;  // of the products with W
  // 1 / s of a W that comes in float8 already (e4m3, tensorwise); undefined: W is numbers.
  Tensor inverse = {};
};

// The largest magnitudes of operands as the kernels that made them found them, fp32 [1], for
// tensorwise float8; an undefined one is looked for in a pass of its own.
struct OperandAmax {
  Tensor x = {}, dy = {};
};
// Room for one, zero; undefined where the projection has no use for it.
Tensor amax_for(const Projection& projection, const Tensor& like);

// `kept` (may be null): x as the weight gradient will read it, where that is in 8 bits; it stays
// undefined where W is frozen or its products are not in float8.
Tensor forward(const Projection& projection, const Tensor& x_NI,
               kernels::Float8Matrix* kept = nullptr, const OperandAmax& amax = {});
// Whether a backward pass reads x: for the gradient of W or of adapters.
bool reads_input(const Projection& projection);
// Adds (or writes) dW, dA, dB and returns dx. REQUIRES x where it is read, unless there is a `kept`
// and no adapter.
Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO,
                const kernels::Float8Matrix& kept = {}, const OperandAmax& amax = {});

}  // namespace wmtp::model
