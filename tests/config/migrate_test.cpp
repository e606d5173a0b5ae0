#include "config/migrate_fixture.h"

namespace wmtp::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MigrateFileTest : public MigrateTest {};

TEST_F(MigrateFileTest, TheResultHasWhatWasWrittenAndWhy) {
  const Migration migration = migrate_upon("", minimal("runtime: {ddp: true}\n"));
  EXPECT_EQ(migration.yaml.substr(migration.yaml.find('\n') + 1),
            "experiment:\n"
            "  name: run\n"
            "  stage: baseline\n"
            "models:\n"
            "  policy:\n"
            "    path: micro\n"
            "dataset:\n"
            "  train: data.jsonl\n"
            "training:\n"
            "  learning_rate: 1e-5\n"
            "distributed:\n"
            "  fsdp:\n"
            "    sharding_strategy: NO_SHARD  # was runtime.ddp: true\n");
}

TEST_F(MigrateFileTest, WhatTheLayerBelowSaysOfOurDefaultsIsLeftOut) {
  const Migration migration =
      migrate_upon(minimal("runtime: {mixed_precision: true, seed: 42, threads: 3}\n"),
                   "dataset: {packing: true}\n");
  EXPECT_THAT(migration.yaml, Not(HasSubstr("mixed_precision")));
  EXPECT_THAT(migration.yaml, Not(HasSubstr("seed")));
  EXPECT_THAT(migration.yaml, HasSubstr("threads: 3\n"));
  EXPECT_THAT(migration.yaml, HasSubstr("packing: true\n"));
}

TEST_F(MigrateFileTest, ReferencesFollowTheirKeysOrBecomeValues) {
  const Migration migration = migrate(
      "storage: {root: \"${oc.env:HOME}/s\", models_dir: \"${.root}/m\"}\n"
      "models: {policy: {path: \"${storage.models_dir}/a\"}}\n"
      "dataset: {train: \"${oc.env:D,'/x'}/t\", name: \"${mlflow.experiment_name}-\\\\${x}\"}\n"
      "mlflow: {experiment_name: e}\n"
      "training: {beta: 1, max_steps: \"${storage.steps}\"}\n");
  EXPECT_THAT(migration.yaml, HasSubstr("path: \"${env:HOME}/s/m/a\""));
  EXPECT_THAT(migration.yaml, HasSubstr("train: \"${env:D:-/x}/t\""));
  EXPECT_THAT(migration.yaml, HasSubstr("name: \"${mlflow.experiment}-$${x}\""));
  EXPECT_THAT(reason(migration, "training.max_steps"),
              HasSubstr("${storage.steps}: the file has no such value"));
}

TEST_F(MigrateFileTest, CirclesAndFloodsOfReferencesEnd) {
  const Migration circle = migrate(
      "storage: {root: \"${storage.models_dir}\", models_dir: \"${storage.root}\"}\n"
      "models: {policy: {path: \"${storage.root}\"}}\n");
  EXPECT_THAT(reason(circle, "models.policy.path"), HasSubstr("more than 8 deep"));
  std::string flood = "storage:\n  root: \"\"\n  models_dir: \"";
  for (int i = 0; i < 500; ++i) flood += "${storage.root}";
  flood += "\"\n  datasets_dir: \"";
  for (int i = 0; i < 500; ++i) flood += "${storage.models_dir}";
  const double before = cpu_seconds();
  const Migration many = migrate(flood + "\"\ndataset: {name: \"${storage.datasets_dir}\"}\n");
  EXPECT_LT(cpu_seconds() - before, 1.0);
  EXPECT_THAT(reason(many, "dataset.name"), HasSubstr("more than 1000 in a value"));
}

TEST_F(MigrateFileTest, OldBooleansNumbersAndTextsAreSpelledAsHere) {
  const Migration migration = migrate(
      "experiment: {name: 007}\ndataset: {packing: yes, append_eos: Off}\n"
      "data_sampling: {n_samples: 1_000, val_n_samples: null, seed:}\n"
      "training: {max_grad_norm: 0}\nruntime: {device: \"cuda:1\"}\n"
      "logging: {level: ERROR}\n");
  for (const char* line : {"  name: \"007\"  #", "  packing: true  #", "  append_eos: false  #",
                           "  n_samples: 1000  #", "  val_n_samples: null\n",
                           "  max_grad_norm: null  #", "  device: cuda  #", "  level: error  #"})
    EXPECT_THAT(migration.yaml, HasSubstr(line));
  EXPECT_THAT(migration.yaml, Not(HasSubstr("seed")));
  EXPECT_TRUE(migration.problems.empty());
}

TEST_F(MigrateFileTest, TwoNamesOfOneKeyMustAgree) {
  const Migration migration =
      migrate("dataset: {batch_size: 2}\ntraining: {batch_size: 2, lr: 1e-3, scheduler: linear}\n");
  EXPECT_THAT(changes(migration),
              ElementsAre("renamed dataset.batch_size -> training.batch_size",
                          "dropped training.batch_size -> ", "not_migrated training.lr -> ",
                          "renamed training.scheduler -> training.lr_scheduler.type"));
  EXPECT_EQ(reason(migration, "training.lr"), "training.learning_rate is 1e-5 already");
}

TEST_F(MigrateFileTest, UnknownKeysAreKeptAsCommentsAndSecretsAreNot) {
  const Migration migration = migrate(
      "training: {learning_rat: 1}\nmlflow: {password: hunter2}\n"
      "aws: {region: r, secret_key: hunter3}\nextends: x.yaml\ntraining.lr: 3\n"
      "models: {value_model: {tokenizer_path: x}}\n");
  EXPECT_EQ(migration.count(Change::Action::not_migrated), 6U);
  EXPECT_THAT(migration.yaml, HasSubstr("\n# not migrated: training.learning_rat: 1 (unknown key; "
                                        "did you mean \"learning_rate\"?)\n"));
  EXPECT_THAT(migration.yaml, HasSubstr("# not migrated: aws: {region: r, secret_key: \"***\"}"));
  EXPECT_THAT(migration.yaml, Not(HasSubstr("hunter")));
  EXPECT_TRUE(migration.problems.empty());
}

TEST_F(MigrateFileTest, NothingOfTheFileLeavesItsComment) {
  const Migration migration = migrate(
      "\"evil\\nruntime:\\e[31m\": \"a\\nb: {c: 1}\"\ntraining: {weight_mode: \"x\\ny\"}\n");
  EXPECT_EQ(migration.count(Change::Action::not_migrated), 2U);
  EXPECT_THAT(migration.yaml, HasSubstr("# not migrated: evil runtime:\\u001b[31m: "));
  EXPECT_THAT(problems(migration.yaml), IsEmpty());
}

TEST_F(MigrateFileTest, VariablesThatAreNotSetAreANotice) {
  const Migration migration = migrate(
      "dataset: {train: \"${oc.env:NOWHERE}/t\"}\nmlflow: {tracking_uri: \"${oc.env:URI}\"}\n"
      "training: {batch_size: \"${oc.env:BATCH}\"}\n");
  EXPECT_TRUE(migration.problems.empty());
  EXPECT_THAT(migration.notices,
              ElementsAre(HasSubstr(" BATCH "), HasSubstr(" NOWHERE "), HasSubstr(" URI ")));
  EXPECT_THAT(migration.yaml, HasSubstr("batch_size: \"${env:BATCH}\""));
}

TEST_F(MigrateFileTest, WhatTheLoaderRefusesStandsAtTheOldPlace) {
  const Migration migration =
      migrate("training:\n  lora: {rank: 0}\n  use_lora: true\n  early_stop_patience: 2\n");
  ASSERT_EQ(migration.problems.size(), 2U);
  EXPECT_THAT(migration.problems[0].where, HasSubstr("old.yaml:4:3"));
  EXPECT_THAT(migration.problems[0].text, HasSubstr("training.early_stop_patience: needs"));
  EXPECT_THAT(migration.problems[1].where, HasSubstr("old.yaml:2:10"));
  EXPECT_THAT(migration.problems[1].text, HasSubstr("training.lora.rank: 0 is out of range"));
}

TEST_F(MigrateFileTest, AllModesOfWeights) {
  EXPECT_THAT(migrate("training: {weight_mode: shuffled}\n").yaml, HasSubstr("control: shuffled"));
  EXPECT_THAT(reason(migrate("training: {weight_mode: odd}\n"), "training.weight_mode"),
              HasSubstr("stage baseline with weight_mode the text \"odd\" has no counterpart"));
  EXPECT_THAT(changes(migrate("experiment: {stage: rho1}\nmodels: {reference: {path: r}}\n"
                              "training: {weight_mode: uniform}\n")),
              Contains("not_migrated training.weight_mode -> "));
}

TEST_F(MigrateFileTest, ProjectNamesARunThatHasNoName) {
  const Migration migration = migrate_upon(
      "",
      "project: {name: a b}\nexperiment: {stage: baseline}\nmodels: {policy: {path: m}}\n"
      "dataset: {train: d}\ntraining: {learning_rate: 1}\n");
  EXPECT_THAT(migration.yaml, HasSubstr("name: a-b  # was project.name: \"a b\"\n"));
}

TEST_F(MigrateFileTest, DamagedFilesAreErrorsOfTheLoadersKind) {
  try {
    migrate("a: {b: 1\nc: [");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.problems().front().where, HasSubstr("old.yaml:2:"));
  }
  EXPECT_THROW(migrate("- 1\n"), ConfigError);
}

}  // namespace
}  // namespace wmtp::config
