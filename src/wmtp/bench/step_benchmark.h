// Training steps on random weights and tokens, timed: what `wmtp bench step` runs.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/bench/stage_benchmark.h"
#include "wmtp/bench/strategy_flags.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/plan/fit_memory.h"
#include "wmtp/run/plan/speed/expected_speed.h"

namespace wmtp::bench {

struct StepFlags {
  StrategyFlags strategy;
  std::string preset = "small", recompute = "none", device = "auto", dtype, rows = "full";
  std::string backend = "auto", precision = "fp32", quantize = "none", float8 = "off", profile;
  std::string gemm_choice = "library";
  StageFlags stage;
  int batch = 4, seq = 512, steps = 10, warm = 2, heads = 0, accumulation = 1, threads = 0;
  int lora_rank = 0;  // 0: every parameter is trained
  std::vector<std::string> lora_targets{"q_proj", "k_proj", "v_proj", "o_proj"};
  double learning_rate = 1e-5, memory_gib = 0;
  bool shared_gpu = false, repeat_batch = false, offload = false, beside_uniform = false;
  bool cuda_graphs = false;
  bool expect = false;  // also what `wmtp plan` expects
};

struct Measured {
  std::vector<double> seconds, rates, losses;
  std::vector<double> over_uniform;  // seconds of a step over those of the uniform one beside it
  double span = 0;                   // of attention, over all tokens
  double targets_per_token = 0;      // of all heads
  int skipped = 0;                   // steps that updated nothing
};

// One step's batches are made inside the timed region, as a loop that trains does. On a GPU the
// host reads a step's result when it has started the next one, as there, and a step lasts from
// result to result. Steps beside the uniform one, and those of the warm-up, are waited for one by
// one.
class StepBench {
 public:
  // BORROWS the group. Draws the weights. Error config for what does not fit into memory.
  StepBench(const StepFlags& flags, comm::ProcessGroupSession& group, c10::Device device);

  Measured run();  // COLLECTIVE
  // COLLECTIVE, BLOCKS. One step more, whose trace of this rank goes to the file; rank 0 shows the
  // table. Error io where it cannot be written.
  void profile(const std::filesystem::path& trace);

  training::TrainableModel& model() { return model_; }
  const training::AssembleOptions& options() const { return options_; }
  const BenchStage& stage() const { return stage_; }
  run::MemoryPlan memory_plan() const;  // of a rank
  run::SpeedRequest speed_request(const Measured& measured) const;

 private:
  struct Timed {
    double seconds = 0, loss = 0;
    std::int64_t tokens = 0;
    bool applied = false;
  };
  void run_ahead(Measured& measured);
  // Which of the two goes first changes from pair to pair.
  void steps(int pair, Measured& measured);
  Timed timed(training::Step& step, const BenchStage& stage);
  training::StepInput next_input(const BenchStage& stage, std::int64_t& tokens);
  void note_span(const models::SyntheticBatch& batch);

  StepFlags flags_;
  BenchStage stage_, uniform_stage_{StageFlags{}};
  comm::ProcessGroupSession& group_;
  c10::Device device_;
  training::AssembleOptions options_;
  training::TrainableModel model_;
  std::unique_ptr<training::Objective> uniform_;
  std::unique_ptr<training::Step> uniform_step_;
  int step_ = 0;
  std::int64_t tokens_ = 0, responses_ = 0, targets_ = 0;
  double squares_ = 0;
};

}  // namespace wmtp::bench
