#include "run/tiny_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include "support/temp_dir.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/checksum.h"
#include "wmtp/data/demo_corpus.h"

namespace wmtp::test {
namespace {

constexpr const char* kConfig = R"(
experiment: {{name: tiny, stage: {stage}}}
models:
  policy:
    path: micro
    name: tiny
    tokenizer_path: {data}
    init: random
    dtype: fp32
    params: {{dim: 32, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 16, ffn_dim: 48}}
{reference}
dataset: {{train: {data}/train.jsonl, validation: {data}/validation.jsonl, max_length: 112}}
data_sampling: {{n_samples: 24, val_n_samples: 4{pairs}}}
training:
  n_epochs: 100
  max_steps: {steps}
  batch_size: 2
  learning_rate: 1e-2
  lr_scheduler: {{type: plateau, patience: 1, factor: 0.5, warmup_ratio: 0.05}}
  eval_every_steps: 3
  early_stop_patience: 1000
  max_bad_steps: 2
  use_lora: {lora}
  lora: {{rank: 4, dropout: 0.2}}
{stage_keys}
checkpoint:
  save_checkpoint_every: null
  save_total_limit: null
  save_best: false
  export_on_finish: none
  async: false
runtime: {{device: cpu, run_dir: {data}/run, cache_dir: {data}/cache}}
)";

std::string stage_keys(const TinyStage& stage) {
  if (stage.stage == "critic")
    return fmt::format(
        "  backbone_frozen: {}\n  value_head: {{dropout: 0.1, learning_rate: 3e-3}}\n"
        "  value_loss: {{type: mse, bias_init: 0.5}}",
        stage.lora);
  if (stage.stage == "verifiable")
    return "  value: {source: joint}\n  value_head: {dropout: 0.1}\n"
           "  td: {mode: gae, ema_warmup_steps: 4}";
  return "";
}

std::string config_text(const std::filesystem::path& data, const TinyStage& stage) {
  return fmt::format(
      kConfig, fmt::arg("stage", stage.stage), fmt::arg("data", data.string()),
      fmt::arg("reference", stage.reference.empty()
                                ? ""
                                : fmt::format("  reference: {{path: {}}}", stage.reference)),
      fmt::arg("pairs", stage.stage == "critic" ? ", use_pairwise: true" : ""),
      fmt::arg("steps", kTinySteps), fmt::arg("lora", stage.lora),
      fmt::arg("stage_keys", stage_keys(stage)));
}

config::ResolvedConfig load(const std::filesystem::path& data, const TinyStage& stage,
                            std::vector<std::string> overrides, int world) {
  config::LoadRequest request;
  // One for each rank: all of them write it.
  request.file = data / fmt::format("tiny-{}.yaml", ::getpid());
  write_file(request.file, config_text(data, stage));
  request.defaults = "none";
  request.overrides = std::move(overrides);
  request.world_size = world;
  return config::load_config(request);
}

}  // namespace

void make_tiny_data(const std::filesystem::path& folder) {
  data::write_demo_corpus(folder, /*seed=*/3, /*num_rows=*/80);
}

TinyRun::TinyRun(comm::ProcessGroupSession& session, const std::filesystem::path& folder,
                 const TinyStage& stage, std::vector<std::string> overrides,
                 std::chrono::milliseconds save_limit)
    : config_(load(folder, stage, std::move(overrides), session.world())) {
  // Votes count per run id: each of several trainers of one process has its own.
  static int num_runs = 0;
  const std::string id = fmt::format("run-{}", ++num_runs);
  const run::RunContext context{
      c10::Device(c10::DeviceType::CPU),
      session.rank(),
      session.world(),
      std::int64_t{1} << 34,
      [](const std::string&) -> std::optional<std::string> { return std::nullopt; },
      session.launch().local_rank,
      session.launch().local_world};
  if (session.rank() == 0)
    lock_.emplace(config_.config.checkpoint.save_dir, kTinyName, checkpoint::this_process(id));
  trainer_ = std::make_unique<run::Trainer>(
      config_, context, session, run::TrainerOptions{id, id, "test", false, nullptr, save_limit});
}

run::RunEnd TinyRun::run(std::optional<std::int64_t> stop_at) {
  return trainer_->run(
      nullptr, {.stop = [this, stop_at] { return stop_at && trainer_->state().step >= *stop_at; },
                .save_now = [] { return false; }});
}

std::unique_ptr<comm::ProcessGroupSession> single_session() {
  auto session = comm::ProcessGroupSession::start(comm::LaunchEnv{}, {});
  session->connect();
  return session;
}

std::string checkpoint_at(std::int64_t step) {
  return checkpoint::checkpoint_name(kTinyName, step);
}

std::string state_hash(const std::filesystem::path& checkpoint) {
  const storage::LocalFileSystem files;
  const checkpoint::CheckpointReader reader(files, checkpoint);
  std::string all;
  for (const checkpoint::FileRecord& file : reader.manifest().files)
    if (file.path != "config.yaml") all += file.path + " " + file.sha256 + "\n";
  return sha256_hex(all);
}

}  // namespace wmtp::test
