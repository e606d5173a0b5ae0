// Asks of a configuration, with some keys changed, what `train` would make of it: the memory of a
// rank by plan_model, the speed by expected_speed. What sweeps, choices and advice are made of.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/plan/speed/expected_speed.h"

namespace wmtp::run {

// Where the run would be. The functions are asked with the ranks of a node.
struct SizingPlace {
  c10::Device device = c10::Device(c10::DeviceType::CPU);  // its kind counts
  int ranks_per_node = 0;                                  // at most; 0: all ranks are on one node
  std::optional<GpuInfo> named_gpu = {};                   // as RunContext has it
  weights::Environment environment;
  std::function<std::int64_t(const config::Config&, int)> memory_bytes;  // of a rank
  std::function<const DeviceModel&(int)> rates;                          // BLOCKS at most once each
};

struct Candidate {
  std::vector<std::string> overrides;  // key.path=value, applied after those of the request
  int world = 1;

  Candidate with(std::vector<std::string> more) const;  // applied last
};

struct SizedRun {
  Candidate candidate;
  config::ResolvedConfig resolved;
  ModelPlan plan;  // where it does not fit: with all that `auto` may recompute or shard
  std::int64_t limit_bytes = 0;
  int ranks_of_node = 1;
  std::int64_t accumulation = 1;
  std::optional<ExpectedSpeed> speed;  // REQUIRES RunSizer::add_speed

  const config::Config& config() const { return resolved.config; }
  int world() const { return candidate.world; }
  std::int64_t batch_size() const { return config().training.batch_size; }
  std::int64_t needed_bytes() const { return plan.memory.needed_bytes(); }
  std::int64_t host_bytes() const;  // of a rank, beside its device's
  bool fits() const { return needed_bytes() <= limit_bytes; }
  std::int64_t samples_per_rank() const { return batch_size() * accumulation; }  // of a step
  std::int64_t tokens_per_step() const;                                          // at most
  config::Recompute recompute() const;
};

// The overrides that make micro-batches of `batch_size` and leave the samples of a step as `run`
// has them. REQUIRES a divisor of run.samples_per_rank().
std::vector<std::string> batch_overrides(const SizedRun& run, std::int64_t batch_size);

// The override that keeps the base as said, by the key that this run reads.
std::string quantize_override(const SizedRun& run, config::Quantize quantize);

class RunSizer {
 public:
  // Paths of the request are not looked at again.
  RunSizer(config::LoadRequest request, SizingPlace place);

  // Its memory. ConfigError for what the rules of the configuration refuse, Error config for what
  // plan_model does, a model that is too large excepted.
  SizedRun size(const Candidate& candidate);
  // `run` with micro-batches of so many rows, `accumulation` of them a step, sooner than size()
  // does it: the rules are not asked, and resolved.keys stay those of `run`.
  SizedRun resized(const SizedRun& run, std::int64_t batch_size, std::int64_t accumulation);
  void add_speed(SizedRun& run);
  // The largest training.batch_size that fits, all else as in `run`; nothing where neither 1 nor
  // that of the run does. No more than `most`.
  std::optional<std::int64_t> largest_batch(const SizedRun& run, std::int64_t most = 1 << 20);

  int ranks_of_node(int world) const;
  const SizingPlace& place() const { return place_; }

 private:
  void plan(SizedRun& run);
  const OpenedModels& models_for(const Candidate& candidate, const config::Config& config,
                                 const RunContext& context);
  RunContext context_of(const config::Config& config, int world) const;

  config::LoadRequest request_;
  SizingPlace place_;
  std::optional<OpenedModels> usual_models_, changed_models_;
  std::vector<std::string> changed_by_;  // overrides that changed_models_ were opened with
};

}  // namespace wmtp::run
