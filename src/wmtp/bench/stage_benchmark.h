// The stages of `wmtp bench step`: what each makes of the model and of a synthetic batch. Signals
// of frozen models are drawn and travel with the batch, as from the signal cache, so that the cost
// of weighting alone shows.
#pragma once
#include <memory>
#include <string>

#include "wmtp/models/synthetic_batch.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/training/assemble.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::bench {

class BenchStage {
 public:
  explicit BenchStage(const std::string& name) : name_(name) {}

  // The model that the stage trains, of the preset's.
  model::ModelConfig model(const model::ModelConfig& config) const;
  bool predicts() const { return name_ != "critic"; }
  // Value head, frozen weights and objective. BORROWS this.
  void set_up(training::AssembleOptions& options);
  parallel::ReadParam fill(const training::AssembleOptions& options) const;
  training::DeviceBatch upload(const models::SyntheticBatch& batch, int num_heads,
                               const Tensor& inv_freq_F) const;
  double flops_per_token(const training::AssembleOptions& options, double span) const;
  const std::string& name() const { return name_; }

 private:
  std::unique_ptr<training::Objective> make(const training::ModelParts& parts);

  std::string name_;
  std::unique_ptr<weighting::EmaTracker> ema_;
};

}  // namespace wmtp::bench
