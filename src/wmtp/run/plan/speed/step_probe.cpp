#include "wmtp/run/plan/speed/step_probe.h"

#include <algorithm>

#include "wmtp/comm/groups.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::run {
namespace {

constexpr int kWarmSteps = 2;  // the first one allocates
const c10::Device kCpu(c10::DeviceType::CPU);

// One trunk block and two heads of the preset's, over a vocabulary that is quick to predict.
model::ModelConfig cut_shape(const char* preset) {
  model::ModelConfig model = model::preset(preset);
  model.num_blocks = 3;
  model.n_future = 2;
  model.vocab_size = std::min<std::int64_t>(model.vocab_size, 4096);
  return model;
}

training::StepInput step_input(const models::SyntheticBatch& batch, int heads,
                               const Tensor& inv_freq_F) {
  training::StepInput input;
  input.micro_batches.push_back({models::upload_tokens(batch.view(), heads, inv_freq_F)});
  input.facts.head_targets = models::count_targets(batch.view(), heads);
  input.facts.scope_targets = input.facts.head_targets;
  input.facts.num_sequences = static_cast<std::int64_t>(batch.sample_ids.size());
  return input;
}

struct ProbeSize {
  int batch = 1, seq = 1, steps = 3;
};

StepProbe run_step_probe(const model::ModelConfig& shape, const ProbeSize& size,
                         const std::function<double()>& clock) {
  training::AssembleOptions options;
  options.model = shape;
  options.objective = training::make_baseline;
  options.groups.groups = {{.name = "policy", .learning_rate = 1e-5, .weight_decay = 0.01}};
  const auto gather = comm::make_single("gather", kCpu), reduce = comm::make_single("reduce", kCpu);
  training::TrainableModel model(options, {gather.get(), reduce.get()});
  const models::SyntheticShape rows{size.batch, size.seq, shape.vocab_size, false};
  std::vector<double> seconds;
  for (int step = 0; step < kWarmSteps + size.steps; ++step) {
    const models::SyntheticBatch batch =
        models::synthetic_batch(rows, /*seed=*/1, static_cast<std::uint64_t>(step));
    const double start = clock();
    model.step().run(step_input(batch, static_cast<int>(shape.n_future), model.inv_freq())).read();
    if (step >= kWarmSteps) seconds.push_back(clock() - start);
  }
  std::ranges::sort(seconds);
  StepProbe probe;
  probe.request.shape.model = shape;
  probe.request.shape.tokens = std::int64_t{size.batch} * size.seq;
  probe.request.span = size.seq;
  probe.step_s = seconds[seconds.size() / 2];
  return probe;
}

}  // namespace

StepProbes run_step_probes(const std::function<double()>& clock) {
  const model::ModelConfig narrow = cut_shape("micro"), wide = cut_shape("small");
  return {.narrow_short = run_step_probe(narrow, {1, 64, 16}, clock),
          .narrow = run_step_probe(narrow, {8, 128, 8}, clock),
          .wide = run_step_probe(wide, {2, 128, 3}, clock)};
}

}  // namespace wmtp::run
