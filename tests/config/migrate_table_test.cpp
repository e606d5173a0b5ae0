// Every row of docs/migration.md, section 2, has an example here and does what the page says.
#include <sstream>

#include "config/migrate_fixture.h"
#include "support/paths.h"
#include "wmtp/config/migrate/rewrites.h"
#include "wmtp/config/old_keys.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

struct Example {
  std::string cell;  // the row's first cell
  std::string old;
  std::vector<std::string> changes;
};

const std::vector<Example> kExamples{
    {"`project.name`, `project.version`",
     "project: {name: p, version: 2}",
     {"dropped project.name -> ", "dropped project.version -> "}},
    {"`models.policy.path: storage/...`",
     "models: {policy: {path: storage/m}}",
     {"unchanged models.policy.path -> models.policy.path"}},
    {"`models.policy.params.*`",
     "models: {policy: {params: {dim: 64, intermediate_size: 128, odd: 1}}}",
     {"unchanged models.policy.params -> models.policy.params",
      "not_migrated models.policy.params.odd -> "}},
    {"`models.policy.params.n_future_tokens`",
     "models: {policy: {params: {n_future_tokens: 4}}}",
     {"renamed models.policy.params.n_future_tokens -> models.policy.n_future_tokens"}},
    {"`models.*.dtype: bfloat16 / float16 / float32`",
     "models: {policy: {dtype: float16}}",
     {"translated models.policy.dtype -> models.policy.dtype: fp16"}},
    {"a key that cannot act in this stage and mode",
     "training: {rho1: {k_percent: 0.5}}",
     {"dropped training.rho1.k_percent -> "}},
    {"`models.value_model.name`",
     "models: {value_model: {name: v}}",
     {"dropped models.value_model.name -> "}},
    {"`models.reference.tokenizer_shared_with`",
     "models: {reference: {tokenizer_shared_with: policy}}",
     {"dropped models.reference.tokenizer_shared_with -> "}},
    {"`models.reward`", "models: {reward: {path: r}}", {"dropped models.reward -> "}},
    {"`data.sampling.stage1`, `data.sampling.stage2`",
     "experiment: {stage: critic}\ndata: {sampling: {stage1: {n_samples: 9}, stage2: {seed: 3}}}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed data.sampling.stage1.n_samples -> data_sampling.n_samples",
      "dropped data.sampling.stage2 -> "}},
    {"`data_sampling.difficulty_range: [a, b]`",
     "data_sampling: {difficulty_range: [1, 5]}",
     {"translated data_sampling.difficulty_range -> data_sampling.difficulty_bins: {all: [1, 5]}, "
      "data_sampling.difficulty_weights: {all: 1.0}"}},
    {"`data_sampling.correct_ratio: 1.0` with `balance_correct: false`",
     "data_sampling: {correct_ratio: 1.0, balance_correct: false}",
     {"unchanged data_sampling.correct_ratio -> data_sampling.correct_ratio",
      "translated data_sampling.correct_ratio -> data_sampling.balance_correct: true",
      "translated data_sampling.balance_correct -> data_sampling.balance_correct: true"}},
    {"`dataset.batch_size`",
     "dataset: {batch_size: 4}",
     {"renamed dataset.batch_size -> training.batch_size"}},
    {"`training.td_lambda`",
     "experiment: {stage: verifiable}\ntraining: {td_lambda: 0.9}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.td_lambda -> training.td.lambda",
      "translated training.td_lambda -> training.td.mode: gae"}},
    {"`training.beta`",
     "experiment: {stage: verifiable}\ntraining: {beta: 0.8}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.beta -> training.td.beta"}},
    {"`training.weight_clip_min`, `weight_clip_max`",
     "experiment: {stage: verifiable}\ntraining: {weight_clip_min: 0.2, weight_clip_max: 2}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.weight_clip_min -> training.td.clip_min",
      "renamed training.weight_clip_max -> training.td.clip_max"}},
    {"`training.td_ema_momentum`, `td_ema_warmup_steps`",
     "experiment: {stage: verifiable}\n"
     "training: {td_ema_momentum: 0.2, td_ema_warmup_steps: 5, td: {mode: td0}}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.td_ema_momentum -> training.td.ema_momentum",
      "renamed training.td_ema_warmup_steps -> training.td.ema_warmup_steps",
      "unchanged training.td.mode -> training.td.mode"}},
    {"`training.rho1_mode`, `training.k_percent`",
     "experiment: {stage: rho1}\nmodels: {reference: {path: r}}\n"
     "training: {rho1_mode: absolute, k_percent: 0.5}",
     {"unchanged experiment.stage -> experiment.stage",
      "unchanged models.reference.path -> models.reference.path",
      "renamed training.rho1_mode -> training.rho1.mode",
      "renamed training.k_percent -> training.rho1.k_percent"}},
    {"`training.value_coef`",
     "experiment: {stage: verifiable}\ntraining: {value_coef: 0.3}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.value_coef -> training.value.coef"}},
    {"`training.scheduler`",
     "training: {scheduler: {type: cosine, warmup_ratio: 0.1}}",
     {"renamed training.scheduler.type -> training.lr_scheduler.type",
      "renamed training.scheduler.warmup_ratio -> training.lr_scheduler.warmup_ratio"}},
    {"`training.temperature` (rho1)",
     "training: {temperature: 1.0}",
     {"dropped training.temperature -> "}},
    {"`experiment.stage: baseline` with `training.weight_mode: uniform`",
     "training: {weight_mode: uniform}",
     {"dropped training.weight_mode -> "}},
    {"... with `training.weight_mode: critic`",
     "models: {value_model: {checkpoint_path: c}}\ntraining: {weight_mode: critic}",
     {"unchanged models.value_model.checkpoint_path -> models.value_model.checkpoint_path",
      "translated training.weight_mode -> experiment.stage: verifiable, training.value.source: "
      "model"}},
    {"... with `training.weight_mode: random`, `shuffled`",
     "training: {weight_mode: random}",
     {"translated training.weight_mode -> experiment.stage: verifiable, training.td.control: "
      "random"}},
    {"`training.trunk_frozen`",
     "experiment: {stage: critic}\ntraining: {trunk_frozen: true}",
     {"unchanged experiment.stage -> experiment.stage",
      "renamed training.trunk_frozen -> training.backbone_frozen"}},
    {"`training.lora.target_modules: [q_proj, ...]` or `[wq, ...]`",
     "training: {use_lora: true, lora: {target_modules: [q_proj, wv]}}",
     {"unchanged training.use_lora -> training.use_lora",
      "unchanged training.lora.target_modules -> training.lora.target_modules"}},
    {"`training.fp16`, `training.bf16`",
     "training: {fp16: true, bf16: false}",
     {"translated training.fp16 -> distributed.fsdp.param_dtype: fp16",
      "dropped training.bf16 -> "}},
    {"`checkpoint.save_total_limit: 1`",
     "checkpoint: {save_total_limit: 1}",
     {"translated checkpoint.save_total_limit -> checkpoint.save_total_limit: 2"}},
    {"`runtime.mixed_precision`",
     "runtime: {mixed_precision: false}",
     {"renamed runtime.mixed_precision -> distributed.fsdp.mixed_precision"}},
    {"`runtime.ddp`",
     "runtime: {ddp: true}",
     {"translated runtime.ddp -> distributed.fsdp.sharding_strategy: NO_SHARD"}},
    {"`runtime.fsdp.*`",
     "runtime: {fsdp: {cpu_offload: true, sharding_strategy: full_shard}}",
     {"renamed runtime.fsdp.cpu_offload -> distributed.fsdp.cpu_offload",
      "translated runtime.fsdp.sharding_strategy -> distributed.fsdp.sharding_strategy: "
      "FULL_SHARD"}},
    {"`runtime.device: mps`",
     "runtime: {device: mps}",
     {"translated runtime.device -> runtime.device: cpu"}},
    {"`distributed.fsdp.activation_checkpointing: true / false`",
     "distributed: {fsdp: {activation_checkpointing: true}}",
     {"translated distributed.fsdp.activation_checkpointing -> "
      "distributed.fsdp.activation_checkpointing: block"}},
    {"`storage.root`, `models_dir`, `datasets_dir`, `checkpoints_dir`, `local_small_dir`",
     "storage: {root: s, models_dir: m, datasets_dir: d, checkpoints_dir: c, local_small_dir: l}",
     {"dropped storage.root -> ", "dropped storage.models_dir -> ",
      "dropped storage.datasets_dir -> ", "dropped storage.checkpoints_dir -> ",
      "dropped storage.local_small_dir -> "}},
    {"`mlflow.experiment_name`",
     "mlflow: {experiment_name: e}",
     {"renamed mlflow.experiment_name -> mlflow.experiment"}},
    {"`mlflow.s3_artifacts`",
     "mlflow: {s3_artifacts: \"s3://b/p/\"}",
     {"translated mlflow.s3_artifacts -> checkpoint.s3_upload: true, storage.s3.bucket: b, "
      "storage.s3.prefix: p"}},
    {"`mlflow.tracking_uri: file://./mlruns`",
     "mlflow: {tracking_uri: \"file://./mlruns\"}",
     {"dropped mlflow.tracking_uri -> "}},
    {"`logging.level`, `logging.format`",
     "logging: {level: WARNING, format: json}",
     {"translated logging.level -> logging.level: warn",
      "unchanged logging.format -> logging.format"}},
    {"`${oc.env:NAME}` and other resolvers",
     "dataset: {train: \"${oc.env:HOME}/t\", validation: \"${now:%Y}\"}",
     {"translated dataset.train -> dataset.train: \"${env:HOME}/t\"",
      "not_migrated dataset.validation -> "}},
};

// First cells of the table under the heading, in their order.
std::vector<std::string> documented() {
  std::istringstream page(test::slurp(test::source_dir() / "docs/migration.md"));
  std::vector<std::string> cells;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ") || (line.empty() && !cells.empty()))
      inside = line == "## 2. Keys of the Python project";
    if (inside && line.starts_with("| ") && line != "| old key | now |")
      cells.push_back(line.substr(2, line.find(" | ") - 2));
  }
  return cells;
}

class MigrateTableTest : public MigrateTest {};

TEST_F(MigrateTableTest, EveryDocumentedRowHasAnExample) {
  std::vector<std::string> shown;
  for (const Example& example : kExamples) shown.push_back(example.cell);
  EXPECT_THAT(documented(), ElementsAreArray(shown));
}

TEST_F(MigrateTableTest, EveryExampleBecomesWhatThePageSays) {
  for (const Example& example : kExamples) {
    const Migration migration = migrate(example.old + "\n");
    EXPECT_THAT(changes(migration), ElementsAreArray(example.changes)) << example.cell;
    EXPECT_TRUE(migration.problems.empty())
        << example.cell << ": " << migration.problems.front().text;
    EXPECT_THAT(problems(migration.yaml), IsEmpty()) << migration.yaml;
  }
}

// The table that error messages are made of.
TEST_F(MigrateTableTest, EveryOldKeyIsNoKeyNowAndHasAWay) {
  std::string page = test::slurp(test::source_dir() / "docs/migration.md");
  for (const OldKey& old : old_keys()) {
    EXPECT_FALSE(schema().find(old.path) || schema().is_section(old.path)) << old.path;
    EXPECT_EQ(old.fate == OldKey::Fate::translated, translation_of(old.path) != nullptr);
    EXPECT_EQ(old.fate == OldKey::Fate::renamed,
              schema().find(old.to) != nullptr || schema().is_section(old.to))
        << old.path;
    EXPECT_FALSE(old.advice.empty() || old.why.empty()) << old.path;
    const std::string name(old.path.substr(old.path.rfind('.') + 1));
    EXPECT_NE(page.find(name), page.npos) << old.path << " is not documented";
  }
  for (const auto& [alias, main] : key_aliases())
    EXPECT_TRUE(schema().find(main) || schema().is_section(main)) << alias;
  for (const auto& [foreign, ours] : foreign_names()) EXPECT_TRUE(schema().find(ours)) << foreign;
}

}  // namespace
}  // namespace wmtp::config
