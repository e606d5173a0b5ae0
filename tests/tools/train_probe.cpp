// wmtp_train_probe: a short sharded run on random batches, written out for PyTorch FSDP2 to repeat.
// Under any launcher:
//   torchrun --no-python --nproc_per_node=2 wmtp_train_probe --preset micro --strategy FULL_SHARD
//   --steps 5 --out DIR
// Rank 0 writes DIR/start.safetensors, DIR/end.safetensors and DIR/run.json {losses, grad_norms,
// tokens [step][rank][B][T]}.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "support/simd_limit.h"
#include "tools/write_tensors.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/json.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/model_source.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace {

using namespace wmtp;

struct Flags {
  std::string preset = "micro", strategy = "FULL_SHARD";
  int group_size = 1;  // of HYBRID_SHARD
  std::filesystem::path out = "probe";
  int batch = 2, seq = 32, steps = 5;
  double learning_rate = 1e-3;
};

void write_state(parallel::Runtime& runtime, const std::filesystem::path& path) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  runtime.gather_full([&](const layout::ParamSpec& param, const Tensor& whole) {
    tensors.emplace_back(param.name, whole.clone());
  });
  if (runtime.placement().rank == 0) test::write_tensors(path, tensors);
}

void run(const Flags& flags) {
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  training::AssembleOptions options;
  options.model = model::preset(flags.preset);
  options.objective = training::make_baseline;
  options.transformer.recompute = model::Recompute::block;
  options.parallel.strategy = parallel::strategy_from_name(flags.strategy);
  options.parallel.shard_group_size = flags.group_size;
  options.groups.groups = {
      {.name = "policy", .learning_rate = flags.learning_rate, .weight_decay = 0.01}};
  training::TrainableModel model(options, parallel::groups_of(*session, options.parallel));
  model.runtime().fill(models::random_weights(options.model, 3));
  if (session->rank() == 0) std::filesystem::create_directories(flags.out);
  write_state(model.runtime(), flags.out / "start.safetensors");

  const int heads = static_cast<int>(options.model.n_future);
  Json report;
  for (int step = 0; step < flags.steps; ++step) {
    training::StepInput input;
    input.facts.head_targets.assign(static_cast<std::size_t>(heads), 0);
    Json step_tokens;
    for (int rank = 0; rank < session->world(); ++rank) {
      const auto batch =
          models::synthetic_batch({flags.batch, flags.seq, options.model.vocab_size, false}, 5,
                                  static_cast<std::uint64_t>(step * 100 + rank));
      const auto counts = models::count_targets(batch.view(), heads);
      for (std::size_t k = 0; k < counts.size(); ++k) input.facts.head_targets[k] += counts[k];
      if (rank == session->rank())
        input.micro_batches.push_back(models::upload_tokens(batch.view(), heads, model.inv_freq()));
      Json rows;
      for (int row = 0; row < flags.batch; ++row)
        rows.push_back(std::vector<std::int32_t>(batch.tokens.begin() + row * flags.seq,
                                                 batch.tokens.begin() + (row + 1) * flags.seq));
      step_tokens.push_back(rows);
    }
    const training::StepResult result = model.step().run(input).read();
    report["losses"].push_back(result.loss);
    report["grad_norms"].push_back(result.grad_norm);
    report["tokens"].push_back(step_tokens);
  }
  write_state(model.runtime(), flags.out / "end.safetensors");
  if (session->rank() == 0) std::ofstream(flags.out / "run.json") << report.dump() << "\n";
  session->finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (!test::limit_simd_by_environment()) return 1;
  Flags flags;
  CLI::App app("a short sharded run, written out");
  app.add_option("--preset", flags.preset);
  app.add_option("--strategy", flags.strategy);
  app.add_option("--group-size", flags.group_size);
  app.add_option("--batch", flags.batch);
  app.add_option("--seq", flags.seq);
  app.add_option("--steps", flags.steps);
  app.add_option("--lr", flags.learning_rate);
  app.add_option("--out", flags.out);
  CLI11_PARSE(app, argc, argv);
  try {
    run(flags);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "wmtp_train_probe: " << error.what() << "\n";
    return 1;
  }
}
