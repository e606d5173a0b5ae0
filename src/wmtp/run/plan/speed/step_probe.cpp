#include "wmtp/run/plan/speed/step_probe.h"

#include <algorithm>

#include "wmtp/comm/groups.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::run {
namespace {

constexpr int kSteps = 3;
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

StepProbe run_step_probe(const model::ModelConfig& shape, int seq,
                         const std::function<double()>& clock) {
  training::AssembleOptions options;
  options.model = shape;
  options.objective = training::make_baseline;
  options.groups.groups = {{.name = "policy", .learning_rate = 1e-5, .weight_decay = 0.01}};
  const auto gather = comm::make_single("gather", kCpu), reduce = comm::make_single("reduce", kCpu);
  training::TrainableModel model(options, {gather.get(), reduce.get()});
  const models::SyntheticShape rows{2, seq, shape.vocab_size, false};
  std::vector<double> seconds;
  for (int step = 0; step <= kSteps; ++step) {
    const models::SyntheticBatch batch =
        models::synthetic_batch(rows, /*seed=*/1, static_cast<std::uint64_t>(step));
    const double start = clock();
    model.step().run(step_input(batch, static_cast<int>(shape.n_future), model.inv_freq())).read();
    if (step > 0) seconds.push_back(clock() - start);  // the first one allocates
  }
  std::ranges::sort(seconds);
  StepProbe probe;
  probe.request.shape.model = shape;
  probe.request.shape.tokens = std::int64_t{rows.batch} * seq;
  probe.request.span = seq;
  probe.step_s = seconds[seconds.size() / 2];
  return probe;
}

}  // namespace

std::vector<StepProbe> run_step_probes(const std::function<double()>& clock) {
  return {run_step_probe(cut_shape("micro"), 128, clock),
          run_step_probe(cut_shape("small"), 128, clock)};
}

}  // namespace wmtp::run
