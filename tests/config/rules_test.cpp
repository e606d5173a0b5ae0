// Rules between keys, availability, paths, and what an unknown key is told.
#include "config/config_fixture.h"

namespace wmtp::config {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct RuleCase {
  std::vector<std::string> overrides;
  std::string problem;  // empty: accepted
};

class RulesTest : public ConfigTest {
 protected:
  void expect(const std::vector<RuleCase>& cases) {
    for (const RuleCase& one : cases) {
      const auto found = problems(minimal(), one.overrides, true);
      if (one.problem.empty())
        EXPECT_THAT(found, IsEmpty()) << one.overrides.back();
      else
        EXPECT_THAT(found, ElementsAre(one.problem)) << one.overrides.back();
    }
  }
};

TEST_F(RulesTest, ModelAndBatch) {
  expect({
      {{"training.lora.train_heads=true"},
       "--override 1: training.lora.train_heads: needs lora.scope: trunk"},
      {{"training.lora.train_heads=true", "training.lora.scope=trunk"}, ""},
      {{"experiment.name=a/b"},
       "--override 1: experiment.name: expected 1 to 128 of A-Z a-z 0-9 . _ -, and not \".\" or "
       "\"..\""},
      {{"mlflow.tracking_uri=https://me:pw@host/x"},
       "--override 1: mlflow.tracking_uri: user names and passwords in a URL are refused; "
       "credentials come from "
       "the environment"},
      {{"mlflow.tracking_uri=https://host/x@y"}, ""},
      {{"training.global_batch_size=64", "training.gradient_accumulation_steps=2"},
       "--override 1: training.global_batch_size: global_batch_size sets the accumulation: leave "
       "out "
       "gradient_accumulation_steps"},
      {{"dataset.max_tokens_per_batch=100"},
       "--override 1: dataset.max_tokens_per_batch: 100 is below dataset.max_length 2048"},
  });
  LoadRequest wanted = request(minimal());
  wanted.overrides = {"training.global_batch_size=64", "training.batch_size=5"};
  wanted.world_size = 4;
  EXPECT_THAT(problems_of(wanted),
              ElementsAre("--override 1: training.global_batch_size: 64 does not divide by 4 "
                          "ranks * batch_size 5"));
  wanted.overrides = {"logging.console_ranks=[0, 4]"};
  EXPECT_THAT(problems_of(wanted),
              ElementsAre("--override 1: logging.console_ranks: there is no rank 4: the run has 4 "
                          "ranks, counted from 0"));
  wanted.overrides = {"logging.console_ranks=[3]"};
  EXPECT_THAT(problems_of(wanted), IsEmpty());
}

TEST_F(RulesTest, Sampling) {
  const std::string bins = "data_sampling.difficulty_bins={easy: [0, 3], hard: [4, 9]}";
  expect({
      {{"data_sampling.use_length_balanced=true"},
       "--override 1: data_sampling.use_length_balanced: needs data_sampling.use_pairwise"},
      {{"data_sampling.use_pairwise=true"},
       "--override 1: data_sampling.use_pairwise: pairs are for stage critic, this is baseline"},
      {{bins, "data_sampling.difficulty_weights={easy: 1, medium: 2}"},
       "--override 2: data_sampling.difficulty_weights: \"medium\" is no bin of "
       "data_sampling.difficulty_bins"},
      {{bins, "data_sampling.difficulty_weights={easy: -1}"},
       "--override 2: data_sampling.difficulty_weights: weight -1 is below 0"},
      {{bins, "data_sampling.curriculum_learning=true", "data_sampling.n_samples=10",
        "data_sampling.curriculum_schedule=[{epoch_range: [0, 1], difficulty_weights: {easy: 1}}]"},
       ""},
      {{bins,
        "data_sampling.curriculum_schedule=[{epoch_range: [0, 1], difficulty_weights: {}}, "
        "{epoch_range: [1.5, 2], difficulty_weights: {}}]"},
       "--override 2: data_sampling.curriculum_schedule: a phase starts at epoch 1.5, expected 1: "
       "ranges start "
       "at 0 and touch"},
      {{bins, "data_sampling.curriculum_learning=true",
        "data_sampling.curriculum_schedule=[{epoch_range: [0, 1], difficulty_weights: {easy: 1}}]"},
       "--override 2: data_sampling.curriculum_learning: needs data_sampling.n_samples"},
      {{"data_sampling.length_bins=[0, 5, 5]"},
       "--override 1: data_sampling.length_bins: expected a rising list of at least one edge"},
      {{"data_sampling.max_pairs_per_problem=0"},
       "--override 1: data_sampling.max_pairs_per_problem: 0 is out of range, allowed is >= 1"},
      {{"data_sampling.balance_correct=true", "dataset.format=text"},
       "--override 1: data_sampling.balance_correct: does not go with dataset.format: text"},
  });
}

TEST_F(RulesTest, Stages) {
  expect({
      {{"experiment.stage=critic", "training.value_loss.type=pairwise_ranking"},
       "--override 2: training.value_loss.type: pairwise_ranking needs data_sampling.use_pairwise"},
      {{"experiment.stage=critic", "training.backbone_frozen=false", "training.use_lora=true"},
       "--override 2: training.backbone_frozen: a trained backbone and use_lora exclude each "
       "other"},
      {{"experiment.stage=verifiable", "training.value.source=model"},
       "--override 2: training.value.source: model needs models.value_model.checkpoint_path"},
      {{"experiment.stage=verifiable", "models.value_model.checkpoint_path=c",
        "training.value.source=joint"},
       "--override 2: models.value_model.checkpoint_path: does not go with value.source: joint"},
      {{"experiment.stage=verifiable", "training.loss_normalization=weights"},
       "--override 2: training.loss_normalization: weights does not go with value.source: joint"},
      {{"experiment.stage=verifiable", "training.td.clip_min=5"},
       "--override 2: training.td.clip_min: clip_min 5 is not below clip_max 5"},
      {{"experiment.stage=verifiable", "training.td.terminal=monte_carlo"},
       "--override 2: training.td.terminal: monte_carlo needs gamma = lambda = 1"},
      {{"experiment.stage=verifiable", "training.td.terminal=monte_carlo", "training.td.lambda=1"},
       ""},
      {{"experiment.stage=verifiable", "training.td.control=random"}, ""},
      {{"experiment.stage=verifiable", "training.td.control=random", "training.control.mean=6"},
       "--override 3: training.control.mean: mean 6 is not between the clip bounds 0.1 and 5"},
      {{"experiment.stage=verifiable", "training.td.control=random", "training.control.std=2.2"},
       "--override 3: training.control.std: std 2.2 is not below 2.12349, the bound for mean 1.328 "
       "within 0.1 "
       "and 5"},
      {{"training.td.beta=0"}, "--override 1: training.td.beta: 0 is out of range, allowed is > 0"},
      {{"experiment.stage=rho1"},
       "stage.yaml: models.reference.path: stage rho1 needs exactly one of models.reference.path "
       "and "
       "checkpoint_path"},
      {{"experiment.stage=rho1", "models.reference.path=a", "dataset.max_tokens_per_batch=4096"},
       "--override 3: dataset.max_tokens_per_batch: does not go with stage rho1"},
  });
}

TEST_F(RulesTest, Run) {
  expect({
      {{"training.lr_scheduler.type=exponential"},
       "--override 1: training.lr_scheduler.type: exponential needs min_lr_ratio > 0"},
      {{"training.lr_scheduler.type=plateau"},
       "--override 1: training.lr_scheduler.type: plateau needs dataset.validation"},
      {{"training.early_stop_patience=2"},
       "--override 1: training.early_stop_patience: needs dataset.validation"},
      {{"distributed.fsdp.reduce_dtype=bf16", "distributed.fsdp.param_dtype=fp32"},
       "--override 1: distributed.fsdp.reduce_dtype: bf16 reduction with fp32 parameters is "
       "refused"},
      {{"distributed.fsdp.param_dtype=float16", "runtime.device=cpu"},
       "--override 1: distributed.fsdp.param_dtype: fp16 needs CUDA, the device is cpu"},
      {{"checkpoint.s3_upload=true"},
       "--override 1: checkpoint.s3_upload: needs storage.s3.bucket"},
      {{"checkpoint.save_dir=s3://bucket/checkpoints"},
       "--override 1: checkpoint.save_dir: checkpoints are saved to a disk; checkpoint.s3_upload "
       "copies each one to storage.s3, and `wmtp checkpoint push` copies one by hand"},
      {{"checkpoint.export_on_finish=peft"},
       "--override 1: checkpoint.export_on_finish: peft needs training.use_lora"},
      {{"checkpoint.save_lora_only=true"},
       "--override 1: checkpoint.save_lora_only: needs training.use_lora"},
      {{"distributed.backend=nccl", "runtime.device=cpu"},
       "--override 1: distributed.backend: nccl needs CUDA and a GPU for each rank; use auto or "
       "gloo"},
      {{"checkpoint.save_total_limit=1"},
       "--override 1: checkpoint.save_total_limit: 1 is out of range, allowed is >= 2"},
  });
}

TEST_F(RulesTest, NoticesAreNoErrors) {
  LoadRequest wanted = request(minimal());
  wanted.check_available = false;
  wanted.overrides = {"training.td.beta=2", "training.max_steps=5",
                      "training.lr_scheduler.warmup_steps=9"};
  EXPECT_THAT(load_config(wanted).notices,
              ElementsAre("training.lr_scheduler.warmup_steps 9 is cut to 4, one below max_steps",
                          "training.td is ignored: stage baseline does not use it"));
}

// Keys that cannot act beside the others.
class InertKeysTest : public ConfigTest {
 protected:
  static std::string staged(const std::string& stage) {
    std::string text = minimal();
    return text.replace(text.find("baseline"), 8, stage);
  }
};

TEST_F(InertKeysTest, WrittenForThisRunTheyAreRefused) {
  const std::vector<std::string> model{"models.value_model.checkpoint_path=c"};
  const auto with = [&](const char* override) {
    return std::vector<std::string>{model[0], override};
  };
  EXPECT_THAT(problems(staged("verifiable"), with("training.value_head.dropout=0.5")),
              ElementsAre("--override 2: training.value_head.dropout: has no effect here: "
                          "value.source: model brings the critic's own head"));
  EXPECT_THAT(problems(staged("verifiable"), with("training.value_loss.reduction=token")),
              ElementsAre("--override 2: training.value_loss.reduction: has no effect here: "
                          "value.source: model trains no values"));
  EXPECT_THAT(problems(staged("verifiable"), with("training.value.coef=0.7")),
              ElementsAre("--override 2: training.value.coef: has no effect here: value.source: "
                          "model trains no values"));
  EXPECT_THAT(problems(staged("verifiable"), {"training.value_loss.coef=2"}),
              ElementsAre("--override 1: training.value_loss.coef: has no effect here: in stage "
                          "verifiable the factor is training.value.coef"));
  EXPECT_THAT(problems(staged("verifiable"), {"training.td.lambda=0.5"}),
              ElementsAre("--override 1: training.td.lambda: has no effect here: training.td.mode "
                          "is td0, which looks one token ahead"));
  EXPECT_THAT(problems(staged("critic"), {"training.loss_normalization=weights"}),
              ElementsAre("--override 1: training.loss_normalization: has no effect here: stage "
                          "critic does not use it"));
  EXPECT_THAT(problems("experiment: {name: run, stage: baseline}\nmodels: {policy: {path: m}}\n"
                       "dataset: {train: d}\ntraining: {learning_rate: 1, td: {beta: 2}}\n"),
              ElementsAre("stage.yaml:4:41: training.td.beta: has no effect here: stage baseline "
                          "does not use it"));
  EXPECT_THAT(problems(minimal(), {"training.loss_normalization=weights_joint"}), IsEmpty());
  EXPECT_THAT(problems(minimal(), {"training.td.beta=0.9"}), IsEmpty());  // its default
}

TEST_F(InertKeysTest, InheritedTheyAreIgnoredWithANotice) {
  test::write_file(dir_ / "base.yaml",
                   "training: {td: {mode: gae, beta: 2}, value_head: {dropout: 0.5}}\n"
                   "models: {value_model: {checkpoint_path: c}}\n");
  const std::string text = minimal() + "extends: base.yaml\n";
  const ResolvedConfig resolved = load(text);
  EXPECT_THAT(resolved.notices,
              testing::UnorderedElementsAre(
                  "training.td is ignored: stage baseline does not use it",
                  "training.value_head is ignored: stage baseline does not use it",
                  "models.value_model is ignored: stage baseline does not use it"));
  EXPECT_EQ(resolved.config.training.td.beta, 0.9);
  EXPECT_EQ(resolved.config.models.value_model.checkpoint_path, std::nullopt);
  // What is printed loads again, without a word.
  EXPECT_THAT(load(resolved.to_yaml()).notices, IsEmpty());
  EXPECT_EQ(load(resolved.to_yaml()).hash(), resolved.hash());
  // defaults.yaml is such a layer too; an override is not.
  test::write_file(dir_ / "defaults.yaml", "training: {td: {beta: 2}}\n");
  EXPECT_THAT(load(minimal()).notices,
              ElementsAre("training.td is ignored: stage baseline does not use it"));
  EXPECT_THAT(problems(minimal(), {"training.td.beta=2"}).size(), 1u);
}

TEST_F(InertKeysTest, WhatASwitchTurnsOffMayStay) {
  const ResolvedConfig resolved = load(minimal(), {"training.lora.rank=4"});
  EXPECT_THAT(resolved.notices, ElementsAre("training.lora is ignored: training.use_lora is off"));
  EXPECT_EQ(resolved.config.training.lora.rank, 4);
  EXPECT_THAT(load(minimal(), {"training.lora.rank=4", "training.use_lora=true"}).notices,
              IsEmpty());
}

TEST_F(InertKeysTest, APrefixNeedsABucketAndSomeKeysOfS3AreForUploadsAlone) {
  EXPECT_THAT(load(minimal(), {"storage.s3.region=x", "storage.s3.prefix=y"}).notices,
              ElementsAre("storage.s3.prefix is ignored: storage.s3.bucket is empty"));
  EXPECT_THAT(load(minimal(), {"storage.s3.bucket=b", "storage.s3.keep=2", "storage.s3.region=x",
                               "checkpoint.upload_wait_s=5"})
                  .notices,
              ElementsAre("checkpoint.upload_wait_s is ignored: checkpoint.s3_upload is off",
                          "storage.s3.keep is ignored: checkpoint.s3_upload is off"));
  EXPECT_THAT(load(minimal(), {"storage.s3.bucket=b", "storage.s3.keep=2",
                               "checkpoint.s3_upload=true", "checkpoint.upload_wait_s=5"})
                  .notices,
              IsEmpty());
}

class ShapeFieldsTest : public ConfigTest {};

TEST_F(ShapeFieldsTest, AreCheckedByName) {
  EXPECT_THAT(problems(minimal(), {"models.policy.params={dim: 64, rope_theta: 10000.0, norm_eps: "
                                   "1e-5, intermediate_size: 176}"}),
              IsEmpty());
  EXPECT_THAT(
      problems(minimal(), {"models.policy.params={dim: 1.5, n_future_tokens: 4, width: 3}"}),
      ElementsAre("--override 1: models.policy.params.dim: expected a whole number",
                  "--override 1: models.policy.params.n_future_tokens: it has a key of its own, "
                  "models.policy.n_future_tokens",
                  "--override 1: models.policy.params.width: not a shape field; known are dim, "
                  "n_layers, n_heads, n_kv_heads, head_dim, ffn_dim, vocab_size, max_positions, "
                  "rope_theta, norm_eps"));
}

class AvailabilityTest : public ConfigTest {};

TEST_F(AvailabilityTest, OnlyDefaultsOfKeysThatNothingActsOn) {
  EXPECT_THAT(problems(minimal(), {"runtime.attention=flash", "models.value_model.tokenizer_path=.",
                                   "runtime.attention=cudnn"}),
              ElementsAre("--override 2: models.value_model.tokenizer_path: not available in this "
                          "version (only its default, null, is accepted)"));
  EXPECT_THAT(
      problems(minimal(), {"runtime.device=mps"}),
      ElementsAre("--override 1: runtime.device: \"mps\" is not available in this version; use "
                  "auto, cuda, cpu"));
  EXPECT_THAT(problems(minimal("runtime: {device: mps}\n")),
              ElementsAre("stage.yaml:5:19: runtime.device: \"mps\" is not available in this "
                          "version; use auto, cuda, cpu"));
}

class DeterministicTest : public ConfigTest {};

TEST_F(DeterministicTest, NeedsANumberOfThreads) {
  EXPECT_THAT(problems(minimal(), {"runtime.deterministic=true", "runtime.threads=2"}), IsEmpty());
  EXPECT_THAT(problems(minimal(), {"runtime.deterministic=true"}),
              ElementsAre("--override 1: runtime.deterministic: needs runtime.threads: with 0 the "
                          "machine decides how many there are, and sums are split by threads"));
}

TEST_F(DeterministicTest, TimesNoProducts) {
  EXPECT_THAT(problems(minimal(), {"runtime.gemm_choice=measured"}), IsEmpty());
  EXPECT_THAT(
      problems(minimal(),
               {"runtime.deterministic=true", "runtime.threads=2", "runtime.gemm_choice=measured"}),
      ElementsAre("--override 3: runtime.gemm_choice: measured cannot be deterministic: what "
                  "is fastest is found by timing"));
}

class QuantizeTest : public ConfigTest {};

TEST_F(QuantizeTest, WhatIsTrainedUponABaseIn4BitsIsAdapters) {
  EXPECT_THAT(problems(minimal(), {"models.policy.quantize=nf4", "training.use_lora=true"}),
              IsEmpty());
  EXPECT_THAT(problems(minimal(), {"models.policy.quantize=nf4"}),
              ElementsAre("--override 1: models.policy.quantize: nf4 needs training.use_lora: "
                          "weights in 4 bits do not learn, adapters on them do"));
  EXPECT_THAT(problems(minimal(), {"models.policy.quantize=int4"}),
              ElementsAre(::testing::HasSubstr("models.policy.quantize")));
}

TEST_F(QuantizeTest, ACriticsOwnBackboneHasItsOwnKey) {
  const std::vector<std::string> critic{"experiment.stage=critic", "training.use_lora=true",
                                        "models.value_model.path=micro"};
  auto with = [&critic](std::string key) {
    std::vector<std::string> all = critic;
    all.push_back(std::move(key));
    return all;
  };
  EXPECT_THAT(problems(minimal(), with("models.value_model.quantize=nf4")), IsEmpty());
  EXPECT_THAT(problems(minimal(), with("models.policy.quantize=nf4")),
              ElementsAre(::testing::HasSubstr("the backbone is models.value_model.path")));
}

class UnknownKeyTest : public ConfigTest {};

TEST_F(UnknownKeyTest, Advice) {
  EXPECT_THAT(
      problems(minimal("distributed: {fsdp: {shard_strategy: NO_SHARD, cpu_ofload: true}}\n"
                       "fsdp: {}\n"
                       "runtime: {mixed_precision: true, grad_clip: 1, sharding_strategy: a}\n"
                       "mlflow: {s3_artifacts: x, password: y}\n"
                       "training.batch_size: 3\n"
                       "storage: {s3: {aws_secret_access_key: z}}\n"
                       "project: {name: q}\n")),
      ElementsAre("stage.yaml:5:22: distributed.fsdp.shard_strategy: unknown key; did you mean "
                  "\"sharding_strategy\"?",
                  "stage.yaml:5:48: distributed.fsdp.cpu_ofload: unknown key; did you mean "
                  "\"cpu_offload\"?",
                  "stage.yaml:6:1: fsdp: unknown key; did you mean \"distributed.fsdp\"?",
                  "stage.yaml:7:11: runtime.mixed_precision: no longer a key; use "
                  "distributed.fsdp.mixed_precision",
                  "stage.yaml:7:34: runtime.grad_clip: unknown key",
                  "stage.yaml:7:48: runtime.sharding_strategy: unknown key; did you mean "
                  "\"distributed.fsdp.sharding_strategy\"?",
                  "stage.yaml:8:10: mlflow.s3_artifacts: no longer a key; use checkpoint.s3_upload "
                  "and storage.s3",
                  "stage.yaml:8:27: mlflow.password: unknown key; credentials are never keys: S3 "
                  "takes AWS_* variables, "
                  "profile files or the instance role, MLflow takes MLFLOW_TRACKING_TOKEN, "
                  "_USERNAME and _PASSWORD",
                  "stage.yaml:9:1: training.batch_size: a key with dots is for --override only; "
                  "write it nested",
                  "stage.yaml:10:16: storage.s3.aws_secret_access_key: unknown key; credentials "
                  "are never keys: S3 takes "
                  "AWS_* variables, profile files or the instance role, MLflow takes "
                  "MLFLOW_TRACKING_TOKEN, _USERNAME and "
                  "_PASSWORD",
                  "stage.yaml:11:1: project: no longer a key; use experiment.name, and "
                  "mlflow.experiment for the tracking "
                  "project"));
}

TEST_F(UnknownKeyTest, AliasesAndMainNamesExclude) {
  EXPECT_THAT(problems("experiment: {name: run, stage: baseline}\nmodels: {policy: {path: m}}\n"
                       "dataset: {train: d}\n"
                       "training: {learning_rate: 1, scheduler: {type: cosine}, lr_scheduler: "
                       "{type: linear}}\n"),
              ElementsAre("stage.yaml:4:72: training.lr_scheduler.type: the same key is given as "
                          "training.scheduler.type"));
  EXPECT_EQ(load(minimal(), {"training.scheduler.type=cosine"}).config.training.lr_scheduler.type,
            LrSchedule::cosine);
  EXPECT_EQ(load(minimal(), {"distributed.fsdp.activation_checkpointing=true"})
                .config.distributed.fsdp.activation_checkpointing,
            Recompute::block);
  EXPECT_EQ(load(minimal(), {"distributed.fsdp.sharding_strategy=no_Shard"})
                .config.distributed.fsdp.sharding_strategy,
            ShardingStrategy::no_shard);
  EXPECT_EQ(load(minimal(), {"models.policy.dtype=bfloat16"}).config.models.policy.dtype,
            DType::bf16);
}

class PathsTest : public ConfigTest {};

TEST_F(PathsTest, InputsMustExist) {
  LoadRequest wanted = request(minimal());
  wanted.check_paths = true;
  wanted.overrides = {"models.policy.path=/no/model", "dataset.validation=[stage.yaml, ~/v.jsonl]"};
  EXPECT_THAT(
      problems_of(wanted),
      ElementsAre("stage.yaml:3:18: dataset.train: \"data.jsonl\" does not exist",
                  "--override 1: models.policy.path: \"/no/model\" does not exist",
                  "--override 2: dataset.validation: \"stage.yaml\" does not exist",
                  "--override 2: dataset.validation: \"/u/someone/v.jsonl\" does not exist"));
  test::write_file(dir_ / "d.jsonl", "");
  std::filesystem::create_directories(dir_ / "models/llama");
  wanted.overrides = {"dataset.train=" + (dir_ / "d.jsonl").string(),
                      "models.policy.path=" + (dir_ / "modles/lama").string(),
                      "dataset.validation=" + (dir_ / "models/other").string()};
  EXPECT_THAT(
      problems_of(wanted),
      ElementsAre("--override 2: models.policy.path: \"modles/lama\" does not exist; did you mean "
                  "\"models/llama\"?",
                  "--override 3: dataset.validation: \"models/other\" does not exist; \"models\" "
                  "does"));
  wanted.overrides = {"dataset.train=" + (dir_ / "d.jsonl").string()};
  EXPECT_THAT(problems_of(wanted), IsEmpty());
  wanted.overrides = {wanted.overrides[0], "models.policy.path=s3://bucket/models/llama",
                      "checkpoint.resume=s3://bucket/a/x-3steps"};
  EXPECT_THAT(problems_of(wanted), IsEmpty()) << "who reads a bucket looks into it";
  wanted.overrides = {wanted.overrides[0], "dataset.validation=s3://bucket/v.jsonl"};
  EXPECT_THAT(problems_of(wanted), ElementsAre("--override 2: dataset.validation: "
                                               "\"s3://bucket/v.jsonl\" does not exist"));
  wanted.overrides = {wanted.overrides[0]};
  env_.erase("HOME");
  EXPECT_THAT(problems_of(wanted),
              ElementsAre("stage.yaml: runtime.cache_dir: cannot expand ~/: HOME is not set; "
                          "write the path out"));
}

TEST_F(PathsTest, RequiredKeysAreNamedTogether) {
  EXPECT_THAT(problems(""), ElementsAre("stage.yaml: experiment.name: required key is missing; "
                                        "`wmtp init` writes a file that has all of them",
                                        "stage.yaml: experiment.stage: required key is missing; "
                                        "`wmtp init` writes a file that has all of them",
                                        "stage.yaml: models.policy.path: required key is missing; "
                                        "`wmtp init` writes a file that has all of them",
                                        "stage.yaml: dataset.train: required key is missing; `wmtp "
                                        "init` writes a file that has all of them",
                                        "stage.yaml: training.learning_rate: required key is "
                                        "missing; `wmtp init` writes a file that has all of them"));
}

}  // namespace
}  // namespace wmtp::config
