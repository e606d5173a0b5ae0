// Values of all prefixes of a micro-batch, v = value_head(RMSNorm(trunk output)) with the final
// norm's weights, fp32; and the way back. N tokens.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "wmtp/model/transformer.h"
#include "wmtp/model/value_head.h"

namespace wmtp::training {

struct ValuePathOptions {
  model::ValueHeadType type = model::ValueHeadType::mlp;
  double dropout = 0;
  // Pairs say nothing about the level of the values: the last bias is left alone.
  bool freeze_last_bias = false;
};

class ValuePath {
 public:
  // BORROWS access and sink; `unit` is the value head's. sink null: values only.
  ValuePath(const model::ModelConfig& config, UnitId unit, model::WeightAccess& access,
            model::GradSink* sink, const ValuePathOptions& options);

  struct Pass {
    Tensor rstd_N, normed_ND;
    model::ValueHeadPass head;
    std::unique_ptr<model::AcquiredUnit> unit;
    const Tensor& values_N() const { return head.values_N; }
  };
  Pass forward(const model::TrunkPass& trunk, const model::Batch& batch);

  // Where the head draws masks; none without dropout.
  std::vector<std::string> dropout_sites() const;

  enum class Reach { head, trunk };  // how far the gradient goes
  void backward(model::TrunkPass& trunk, Pass pass, const Tensor& dvalues_N, Reach reach);

 private:
  UnitId unit_;
  model::WeightAccess& access_;
  model::GradSink* sink_;
  double norm_eps_;
  ValuePathOptions options_;
  model::ValueHead head_;
  int num_hidden_;
};

// coef * dvalues, times the loss scale where there is one.
Tensor scaled(const Tensor& dvalues_N, double coef, const Tensor& loss_scale);

}  // namespace wmtp::training
