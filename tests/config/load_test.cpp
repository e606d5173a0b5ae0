#include "config/config_fixture.h"
#include "wmtp/config/derived.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const ResolvedKey& key(const ResolvedConfig& resolved, const std::string& name) {
  for (const ResolvedKey& one : resolved.keys)
    if (one.key == name) return one;
  throw std::runtime_error("no key " + name);
}

class LayersTest : public ConfigTest {};

TEST_F(LayersTest, MinimalFileGetsDefaults) {
  const Config config = load(minimal()).config;
  EXPECT_EQ(config.experiment.name, "run");
  EXPECT_EQ(config.training.learning_rate, 1e-5);
  EXPECT_EQ(config.runtime.run_dir, "runs/run");
  EXPECT_EQ(config.checkpoint.save_dir, "runs/run/checkpoints");
  EXPECT_EQ(config.runtime.cache_dir, "/u/someone/.cache/wmtp");
  EXPECT_EQ(config.training.max_grad_norm, 1.0);
  EXPECT_EQ(config.distributed.fsdp.sharding_strategy, ShardingStrategy::full_shard);
  EXPECT_THAT(config.dataset.train, ElementsAre("data.jsonl"));
}

TEST_F(LayersTest, LaterLayersWin) {
  test::write_file(dir_ / "defaults.yaml",
                   "training: {batch_size: 2, log_interval: 2, n_epochs: 2}\n");
  test::write_file(dir_ / "base.yaml", "training: {batch_size: 3, log_interval: 3}\n");
  const std::string text = minimal() + "extends: base.yaml\n";
  const ResolvedConfig resolved = load(text, {"training.batch_size=4", "training.batch_size=5"});
  EXPECT_EQ(resolved.config.training.n_epochs, 2);
  EXPECT_EQ(resolved.config.training.log_interval, 3);
  EXPECT_EQ(resolved.config.training.batch_size, 5);
  EXPECT_EQ(key(resolved, "training.batch_size").origin, "--override 2");
  EXPECT_EQ(key(resolved, "training.n_epochs").origin, (dir_ / "defaults.yaml").string() + ":1");
  EXPECT_EQ(key(resolved, "training.use_lora").origin, "built-in");
  EXPECT_EQ(key(resolved, "training.td.beta").origin, "derived: td.mode = td0");
}

TEST_F(LayersTest, DefaultsBesideParentGivenOrNone) {
  test::write_file(dir_ / "defaults.yaml", "training: {batch_size: 2}\n");
  test::write_file(dir_ / "other.yaml", "training: {batch_size: 3}\n");
  test::write_file(dir_ / "sub/stage.yaml", minimal());
  LoadRequest wanted = request(minimal());
  wanted.file = dir_ / "sub/stage.yaml";
  EXPECT_EQ(load_config(wanted).config.training.batch_size, 2);
  wanted.defaults = (dir_ / "other.yaml").string();
  EXPECT_EQ(load_config(wanted).config.training.batch_size, 3);
  wanted.defaults = "none";
  EXPECT_EQ(load_config(wanted).config.training.batch_size, 1);
  test::write_file(dir_ / "far/away/stage.yaml", minimal());
  wanted.defaults.reset();
  wanted.file = dir_ / "far/away/stage.yaml";
  wanted.installed_defaults = dir_ / "other.yaml";
  EXPECT_EQ(load_config(wanted).config.training.batch_size, 3);
}

TEST_F(LayersTest, MapsMergeListsReplace) {
  test::write_file(
      dir_ / "defaults.yaml",
      "models: {policy: {params: {dim: 64, n_layers: 2}}}\nexperiment: {tags: [a, b]}\n");
  const Config config =
      load(minimal(), {"experiment.tags=[c]", "models.policy.params.dim=32"}).config;
  EXPECT_EQ(config.models.policy.params, Json({{"dim", 32}, {"n_layers", 2}}));
  EXPECT_THAT(config.experiment.tags, ElementsAre("c"));
}

TEST_F(LayersTest, ExtendsProblems) {
  test::write_file(dir_ / "loop.yaml", "extends: stage.yaml\n");
  EXPECT_THAT(problems(minimal() + "extends: loop.yaml\n"),
              ElementsAre("loop.yaml:1:10: extends: stage.yaml extends itself"));
  EXPECT_THAT(
      problems(minimal() + "extends: gone.yaml\n"),
      ElementsAre("stage.yaml:5:10: extends: cannot read gone.yaml: No such file or directory"));
  test::write_file(dir_ / "broken.yaml", "training: {batch_size: 7\n");
  EXPECT_THAT(problems(minimal() + "extends: broken.yaml\n"),
              Contains("stage.yaml:5:10: extends: broken.yaml has errors"));
  EXPECT_THAT(problems(minimal() + "extends: [3]\n"),
              ElementsAre("stage.yaml:5:11: extends: expected a path, found 3"));
  for (int i = 1; i < 7; ++i)
    test::write_file(dir_ / ("d" + std::to_string(i) + ".yaml"),
                     "extends: d" + std::to_string(i + 1) + ".yaml\n");
  test::write_file(dir_ / "d5.yaml", "{}\n");
  EXPECT_THAT(problems(minimal() + "extends: d1.yaml\n"),
              ElementsAre("d4.yaml:1:10: extends: more than 4 files deep"));
  test::write_file(dir_ / "d4.yaml", "training: {batch_size: 7}\n");
  EXPECT_EQ(load(minimal() + "extends: d1.yaml\n").config.training.batch_size, 7);
}

TEST_F(LayersTest, LoadsInMilliseconds) {
  load(minimal());
  const double start = cpu_seconds();
  for (int i = 0; i < 10; ++i) load(minimal());
  EXPECT_LT((cpu_seconds() - start) / 10, 0.05);  // a few ms; room for a busy machine
}

class OverrideTest : public ConfigTest {};

TEST_F(OverrideTest, Values) {
  const Config config =
      load(minimal(), {"experiment.name=007", "training.optimizer.betas=[0.8, 0.9]",
                       "training.max_grad_norm=null", "models.policy.tokenizer_path=null",
                       "training.lora={rank: 4, alpha: 8}", "experiment.tags[0]=1.5",
                       "experiment.tags.1=b=c", "data_sampling.length_bins.7=9000",
                       "dataset.train=[a.jsonl, b.jsonl]", "training.batch_size=2.0"})
          .config;
  EXPECT_EQ(config.experiment.name, "007");
  EXPECT_THAT(config.training.optimizer.betas, ElementsAre(0.8, 0.9));
  EXPECT_EQ(config.training.max_grad_norm, std::nullopt);
  EXPECT_EQ(config.models.policy.tokenizer_path, std::nullopt);
  EXPECT_EQ(config.training.lora.rank, 4);
  EXPECT_THAT(config.experiment.tags, ElementsAre("1.5", "b=c"));
  EXPECT_EQ(config.data_sampling.length_bins.back(), 9000);
  EXPECT_EQ(config.dataset.train.size(), 2u);
  EXPECT_EQ(config.training.batch_size, 2);
}

TEST_F(OverrideTest, NamesOfOtherProgramsLeadToOurs) {
  const std::pair<const char*, const char*> names[] = {
      {"training.lr", "training.learning_rate"},
      {"training.num_epochs", "training.n_epochs"},
      {"training.num_train_epochs", "training.n_epochs"},
      {"training.steps", "training.max_steps"},
      {"training.per_device_train_batch_size", "training.batch_size"},
      {"training.grad_accum", "training.gradient_accumulation_steps"},
      {"training.grad_clip", "training.max_grad_norm"},
      {"training.weight_decay", "training.optimizer.weight_decay"},
      {"training.gradient_checkpointing", "distributed.fsdp.activation_checkpointing"},
      {"training.max_seq_length", "dataset.max_length"},
      {"training.seed", "runtime.seed"},
      {"training.output_dir", "runtime.run_dir"},
      {"dataset.path", "dataset.train"},
      {"dataset.max_seq_length", "dataset.max_length"},
      {"models.path", "models.policy.path"}};
  for (const auto& [theirs, ours] : names) {
    EXPECT_THAT(problems(minimal(), {fmt::format("{}=1", theirs)}),
                ElementsAre(fmt::format("--override 1: {}: unknown key; did you mean \"{}\"?",
                                        theirs, ours)));
    EXPECT_NE(schema().find(ours), nullptr) << ours;
  }
}

TEST_F(OverrideTest, Problems) {
  EXPECT_THAT(
      problems(minimal(), {"training.batch_size", "training.batchsize=2", "experiment.tags[2]=x",
                           "=3", "training.batch_size=[", "training=3", "training.batch_size[0]=3",
                           "project.name=x", "training.batch_size=yes"}),
      ElementsAre(
          "--override 1: \"training.batch_size\" has no \"=\"; write key.path=value",
          "--override 2: training.batchsize: unknown key; did you mean \"batch_size\"?",
          "--override 3: experiment.tags[2]: index 2 is out of range, the list has 0 items",
          "--override 4: not a key path; write section.key, list items as key[0]",
          "--override 5: a key must be a plain or quoted text; is a bracket left open?",
          "--override 6: training: expected a map of keys, found 3",
          "--override 7: training.batch_size[0]: no index 0 here: 1 is not a list",
          "--override 8: project.name: no longer a key; use experiment.name, and mlflow.experiment "
          "for "
          "the tracking project",
          "--override 9: training.batch_size: expected an integer, found the text \"yes\""));
}

class InterpolationTest : public ConfigTest {};

TEST_F(InterpolationTest, References) {
  env_["WHO"] = "me";
  env_["STEPS"] = "30";
  const ResolvedConfig resolved =
      load(minimal("runtime: {run_dir: 'x/${experiment.name}-${training.max_steps}', threads: "
                   "'${training.batch_size}'}\n"
                   "tracking: {jsonl_path: '${env:NOWHERE:-/tmp/a}/b'}\n"),
           {"training.max_steps=${env:STEPS}", "experiment.description=by ${env:WHO} $${literal}",
            "experiment.tags=['${env:WHO}', '$${x}', '$$${y}']"});
  EXPECT_EQ(resolved.config.runtime.run_dir, "x/run-30");
  EXPECT_EQ(resolved.config.runtime.threads, 1);
  EXPECT_EQ(resolved.config.tracking.jsonl_path, "/tmp/a/b");
  EXPECT_EQ(resolved.config.training.max_steps, 30);
  EXPECT_EQ(resolved.config.experiment.description, "by me ${literal}");
  EXPECT_THAT(resolved.config.experiment.tags, ElementsAre("me", "${x}", "$${y}"));
}

TEST_F(InterpolationTest, EnvironmentIsShownAsReference) {
  env_["WHO"] = "hush";
  const ResolvedConfig resolved = load(minimal("runtime: {run_dir: '/r/${env:WHO}'}\n"),
                                       {"experiment.description=by ${env:WHO}"});
  EXPECT_EQ(key(resolved, "experiment.description").value, "by ${env:WHO}");
  EXPECT_EQ(key(resolved, "runtime.run_dir").value, "/r/hush");
  EXPECT_THAT(resolved.to_yaml(), HasSubstr("description: \"by ${env:WHO}\""));
  for (const auto& [name, value] : resolved.flat()) {
    if (name == "experiment.description") {
      EXPECT_THAT(value, ::testing::Not(HasSubstr("hush")));
    }
  }
  env_["WHO"] = "other";
  const ResolvedConfig changed =
      load(minimal("runtime: {run_dir: '/r/hush'}\n"), {"experiment.description=by ${env:WHO}"});
  EXPECT_NE(resolved.agreement_hash(), changed.agreement_hash());
}

TEST_F(InterpolationTest, Problems) {
  EXPECT_THAT(
      problems(
          minimal("runtime: {run_dir: '${logging.dir}'}\nlogging: {dir: 'a${runtime.run_dir}'}\n")),
      ElementsAre(
          "stage.yaml:6:16: logging.dir: circular reference: runtime.run_dir -> logging.dir -> "
          "runtime.run_dir"));
  EXPECT_THAT(
      problems(minimal("logging: {dir: '${env:NOPE}'}\n")),
      ElementsAre(
          "stage.yaml:5:16: logging.dir: the environment variable NOPE is not set; set it or write "
          "${env:NOPE:-text}"));
  EXPECT_THAT(problems(minimal("logging: {dir: '${training}'}\n")),
              ElementsAre("stage.yaml:5:16: logging.dir: ${training} is a section, not a value"));
  EXPECT_THAT(
      problems(minimal("logging: {dir: '${experiment.nam}'}\n")),
      ElementsAre(
          "stage.yaml:5:16: logging.dir: ${experiment.nam}: unknown key; did you mean \"name\"?"));
  EXPECT_THAT(problems(minimal("logging: {dir: 'x${'}\n")),
              ElementsAre("stage.yaml:5:16: logging.dir: \"${\" has no closing brace"));
  EXPECT_THAT(problems(minimal("logging: {dir: 'x${experiment.tags}'}\n")),
              ElementsAre("stage.yaml:5:16: logging.dir: ${experiment.tags} is a list, not text"));
  EXPECT_THAT(problems(minimal("experiment: {name: a}\n")),
              ElementsAre("stage.yaml:5:1: experiment: duplicate key"));
}

TEST_F(InterpolationTest, DepthAndLengthAreBounded) {
  const std::vector<std::string> chain{
      "experiment.name",    "experiment.description", "dataset.name",      "dataset.text.column",
      "models.policy.name", "mlflow.experiment",      "storage.s3.bucket", "storage.s3.region",
      "storage.s3.profile", "mlflow.run_name"};
  std::vector<std::string> overrides;
  for (std::size_t i = 1; i < chain.size(); ++i)
    overrides.push_back(chain[i] + "=${" + chain[i - 1] + "}");
  EXPECT_THAT(problems(minimal(), {overrides.begin(), overrides.end() - 1}, true), IsEmpty());
  EXPECT_THAT(problems(minimal(), overrides, true),
              ElementsAre("--override 9: mlflow.run_name: references are more than 8 deep"));
  const std::string many = [] {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "${experiment.description}";
    return text;
  }();
  EXPECT_THAT(
      problems(minimal(),
               {"experiment.description=0123456789012345678901234567890", "dataset.name=" + many}),
      ElementsAre("--override 2: dataset.name: longer than 65536 bytes after interpolation"));
}

TEST_F(ConfigTest, FlagsComeLastAndAreNamedAsWritten) {
  LoadRequest wanted = request(minimal());
  wanted.overrides = {"training.max_steps=7"};
  wanted.flags = {{"--max-steps", "training.max_steps=9"}};
  const ResolvedConfig resolved = load_config(wanted);
  EXPECT_EQ(resolved.config.training.max_steps, 9);
  EXPECT_EQ(key(resolved, "training.max_steps").origin, "--max-steps");
  EXPECT_THAT(problems(minimal(), {"training.batch_size=0"}),
              ElementsAre(testing::StartsWith("--override 1: training.batch_size")));
}

class DerivedTest : public ConfigTest {};

TEST_F(DerivedTest, ModeAndStage) {
  LoadRequest wanted = request(minimal());
  wanted.check_available = false;
  wanted.overrides = {"experiment.stage=verifiable", "training.td_lambda=0.9"};
  const ResolvedConfig gae = load_config(wanted);
  EXPECT_EQ(gae.config.training.td.mode, TdMode::gae);
  EXPECT_EQ(gae.config.training.td.lambda, 0.9);
  EXPECT_EQ(gae.config.training.td.beta, 1);
  EXPECT_EQ(gae.config.training.td.clip_max, 3);
  EXPECT_EQ(gae.config.training.td.whiten, Whiten::ema);
  EXPECT_EQ(key(gae, "training.td.mode").origin, "derived: a flat td_* key is given");
  wanted.overrides = {"experiment.stage=rho1", "models.reference.path=m"};
  EXPECT_EQ(load_config(wanted).config.training.loss_normalization, LossNormalization::weights);
  wanted.overrides = {"experiment.stage=verifiable", "models.value_model.checkpoint_path=m"};
  EXPECT_EQ(load_config(wanted).config.training.value.source, ValueSource::model);
}

TEST_F(DerivedTest, FromSeveralKeys) {
  Config config = load(minimal("distributed: {fsdp: {mixed_precision: false}}\n"),
                       {"training.global_batch_size=64", "training.batch_size=4",
                        "models.policy.path=meta/Llama-3.1-8B/"})
                      .config;
  EXPECT_EQ(accumulation_steps(config, 4), 4);
  EXPECT_THROW(accumulation_steps(config, 3), Error);
  EXPECT_EQ(compute_dtypes(config.distributed.fsdp).param, DType::fp32);
  EXPECT_EQ(policy_name(config), "llama_3_1_8b");
  EXPECT_EQ(lora_learning_rate(config), 1e-5);
}

}  // namespace
}  // namespace wmtp::config
