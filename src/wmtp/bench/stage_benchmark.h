// The stages of `wmtp bench step`: what each makes of the model and of a synthetic batch. Signals
// of frozen models are drawn and travel with the batch, as from the signal cache, so that the cost
// of weighting alone shows; or a frozen model of the policy's shape gives them, or a value head.
#pragma once
#include <memory>
#include <string>

#include "wmtp/models/synthetic_batch.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/frozen_model.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::bench {

struct StageFlags {
  std::string name = "baseline";
  std::string signals = "given";  // given; model: rho1, verifiable; joint: verifiable
  bool train_backbone = false;    // of a critic
};

class BenchStage {
 public:
  // Error config for signals that the stage has not.
  explicit BenchStage(StageFlags flags);

  // The model that the stage trains, of the preset's.
  model::ModelConfig model(const model::ModelConfig& config) const;
  bool predicts() const { return name() != "critic"; }
  // Value head, frozen weights and objective. BORROWS this.
  void set_up(training::AssembleOptions& options);
  parallel::ReadParam fill(const training::AssembleOptions& options) const;
  training::DeviceBatch upload(const models::SyntheticBatch& batch,
                               const training::UploadOptions& options) const;
  double flops_per_token(const training::AssembleOptions& options, double span) const;
  const std::string& name() const { return flags_.name; }
  // The frozen model that is loaded beside, as the memory plan counts it.
  std::optional<run::FrozenRequest> frozen_request(const training::AssembleOptions& options) const;

 private:
  std::unique_ptr<training::Objective> make(const training::ModelParts& parts);
  bool reads_model() const { return flags_.signals == "model"; }
  models::ModelSource frozen_source(const training::AssembleOptions& options) const;
  training::FrozenModelOptions frozen_options(const training::AssembleOptions& options) const;

  StageFlags flags_;
  std::unique_ptr<weighting::EmaTracker> ema_;
  std::function<std::unique_ptr<training::FrozenModel>(const parallel::Groups&)> load_frozen_;
  std::unique_ptr<training::FrozenModel> frozen_;
};

}  // namespace wmtp::bench
