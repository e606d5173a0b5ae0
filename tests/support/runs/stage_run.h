// A few optimizer steps of one stage on a tiny model, with the stage's real objective, for tests
// that compare ways to deal out the same samples, and for the probe that Python looks through.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "wmtp/training/assemble.h"
#include "wmtp/training/frozen_model.h"
#include "wmtp/training/objectives/critic.h"
#include "wmtp/training/objectives/rho1.h"
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::test {

struct StageRow {
  std::vector<std::int32_t> ids;
  std::int32_t prompt = 0;
  float reward = 0;
  std::uint64_t sample_id = 0;
  std::uint8_t role = 0;              // PairRole
  std::vector<float> value, ref_nll;  // cached signals of all rows, or of none
};
using StageSample = std::vector<StageRow>;  // one row, or the two of a pair

enum class StageKind { baseline, critic, verifiable, rho1 };

struct StageSetup {
  StageKind stage = StageKind::baseline;
  training::CriticOptions critic = {};
  training::VerifiableOptions verifiable = {};
  training::Rho1Options rho1 = {};
  bool joint = false;                             // verifiable: values of the policy's own head
  std::optional<std::uint64_t> frozen_seed = {};  // of the value model's or reference's weights
  bool shard_frozen = false;
  training::ValuePathOptions value_head = {};  // of critic and joint; of the value model
  std::optional<model::LoraConfig> lora = {};  // adapters begin at random values, B too
  weighting::EmaState ema = {};                // before the first step
  parallel::Strategy strategy = parallel::Strategy::no_shard;
  int shard_group_size = 1;  // of HYBRID_SHARD
  int batch_size = 8;        // samples of a micro-batch
  int row_stride = 0;        // 0: packed; else rows padded to so many tokens
  std::uint64_t seed = 3;    // of the weights
  std::uint64_t epoch = 0;   // of the samples to learn from
  model::Recompute recompute = model::Recompute::none;
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
  c10::Device device = c10::Device(c10::kCPU);
  models::BatchShape shape = models::BatchShape::exact;  // to learn from
  bool cuda_graphs = false;
  bool bf16 = false;  // with reproducible attention
};

// Two trunk blocks, three heads, width 32, 64 tokens.
model::ModelConfig tiny_model();
// Rows of 2..20 tokens with prompts of any length: none, all of the row, all but one token too.
std::vector<StageSample> random_samples(int count, std::uint64_t seed, bool pairs = false);
// Puts random values and reference losses on every row.
void cache_signals(std::vector<StageSample>& samples, std::uint64_t seed);

class StageRun {
 public:
  StageRun(const StageSetup& setup, const parallel::Groups& groups);
  StageRun(const StageRun&) = delete;

  // Micro-batch j of rank k takes samples [(j * world + k) * batch_size, + batch_size).
  training::StepInput deal(std::span<const StageSample> samples);
  training::StepResult step(std::span<const StageSample> samples);
  // All samples, in contiguous blocks over ranks.
  training::Numbers validate(std::span<const StageSample> samples);

  struct Part {
    Tensor values;
    std::int64_t begin = 0;  // of this rank's part in the unit
  };
  Part master(std::size_t unit) { return part(unit, states()[unit].master.joined()); }
  Part grad(std::size_t unit) { return part(unit, states()[unit].grad); }
  std::vector<parallel::UnitState>& states() { return model_->runtime().states(); }
  std::size_t num_units() { return states().size(); }
  training::TrainableModel& model() { return *model_; }
  const weighting::EmaTracker& ema() const { return ema_; }
  training::FrozenModel* frozen() { return frozen_.get(); }  // null: none
  models::ModelSource frozen_source() const;

 private:
  training::AssembleOptions assemble_options();
  std::unique_ptr<training::Objective> objective(const training::ModelParts& parts);
  training::DeviceBatch upload(std::span<const StageSample> samples, bool learns);
  Part part(std::size_t unit, const Tensor& shard);

  StageSetup setup_;
  parallel::Groups groups_;
  weighting::EmaTracker ema_;
  std::unique_ptr<training::FrozenModel> frozen_;
  std::unique_ptr<training::TrainableModel> model_;
  int steps_done_ = 0;
};

}  // namespace wmtp::test
