// The value of every prefix: a small head on the normalised trunk output, fp32 throughout.
//   linear: v = w u + b;   sigmoid: 1 / (1 + e^-(w u + b));
//   mlp: d -> d/4 -> d/8 -> 1 with exact (erf) GELU and dropout after each hidden layer.
// Forward and backward are written out; parameters are ranges of the unit's flat buffer, in the
// order of value_head_unit. N tokens, D features.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "wmtp/kernels/dropout.h"
#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

// What the backward needs of a forward.
struct ValueHeadPass {
  Tensor values_N;
  std::vector<Tensor> inputs;       // of each layer, [N, in]
  std::vector<Tensor> before_gelu;  // of each hidden layer
  std::vector<std::optional<kernels::DropoutMask>> masks;
};

class ValueHead {
 public:
  ValueHead(ValueHeadType type, std::int64_t dim);

  // `masks`: one per hidden layer, or none (evaluation, dropout 0). u_ND in the dtype of `weights`
  // (fp32, fp64).
  ValueHeadPass forward(const Tensor& weights, const Tensor& u_ND,
                        std::vector<std::optional<kernels::DropoutMask>> masks = {}) const;
  // Adds to `grads` (flat, like the weights) and returns du_ND.
  Tensor backward(const Tensor& weights, const Tensor& grads, const ValueHeadPass& pass,
                  const Tensor& dvalues_N) const;

  // Weights from scratch: last layer 0 (its bias `bias_init`), others uniform in +-1/sqrt(fan_in),
  // weight and bias.
  void draw(const layout::ParamSpec& param, std::uint64_t seed, double bias_init,
            std::int64_t begin, const Tensor& out) const;

 private:
  struct Layer {
    std::int64_t inputs = 0, outputs = 0,
                 at = 0;  // at: of the weight in the flat buffer; the bias follows it
  };
  Tensor weight(const Layer& layer, const Tensor& flat) const;
  Tensor bias(const Layer& layer, const Tensor& flat) const;

  ValueHeadType type_;
  layout::UnitSpec unit_;
  std::vector<Layer> layers_;
};

}  // namespace wmtp::model
