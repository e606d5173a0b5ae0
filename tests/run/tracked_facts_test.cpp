#include "wmtp/run/report/tracked_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/temp_dir.h"
#include "wmtp/run/report/git_checkout.h"

namespace wmtp::run {
namespace {

using test::TempDir;
using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using Variables = std::map<std::string, std::string>;

config::Environment environment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

config::ResolvedConfig load(const std::string& text, const config::Environment& env) {
  config::LoadRequest request;
  request.file = "run.yaml";
  request.text = text;
  request.defaults = "none";
  request.env = env;
  request.overrides = {"runtime.cache_dir=cache"};
  request.check_paths = request.check_available = false;
  return config::load_config(request);
}

constexpr const char* kPlainConfig = R"(
experiment: {name: math, stage: baseline, description: first try, tags: [a, b]}
models: {policy: {path: models/llama, name: llama}}
dataset: {train: [data/a.jsonl, data/b.jsonl], validation: data/v.jsonl, name: gsm}
training: {learning_rate: 1.0e-5, max_steps: 7}
)";

OrderedJson some_environment() {
  return {
      {"wmtp", "1.2.3"},
      {"device", "cpu"},
      {"ranks", 4},
      {"trainable", {{"trained", 10}, {"total", 30}}},
      {"data",
       {{"train", {{"samples", 5}, {"rows", 6}, {"lengths", {{"tokens", 70}, {"targets", 40}}}}}}}};
}

TrackedRun tracked(const config::ResolvedConfig& resolved) {
  TrackedRun run{.resolved = resolved, .environment = some_environment()};
  run.model.dim = 64;
  run.train_digest = std::string(64, 'a');
  return run;
}

TEST(TrackedFacts, ParamsAreWhatPeopleCompare) {
  const auto resolved = load(kPlainConfig, {});
  const NamedTexts params = tracked_params(tracked(resolved), Redactor({}));
  EXPECT_THAT(params, Contains(Pair("training.learning_rate", "1e-05")));
  EXPECT_THAT(params, Contains(Pair("training.optimizer.betas", "[0.9,0.95]")));
  EXPECT_THAT(params, Contains(Pair("experiment.stage", "baseline")));
  EXPECT_THAT(params, Contains(Pair("model.name", "llama")));
  EXPECT_THAT(params, Contains(Pair("model.dim", "64")));
  EXPECT_THAT(params, Contains(Pair("model.trained_parameters", "10")));
  EXPECT_THAT(params, Contains(Pair("dataset.name", "gsm")));
  EXPECT_THAT(params, Contains(Pair("data.train.tokens", "70")));
  EXPECT_THAT(params, Contains(Pair("distributed.world_size", "4")));
  EXPECT_THAT(params, Contains(Key("distributed.fsdp.sharding_strategy")));
  EXPECT_THAT(params, Contains(Key("runtime.seed")));
}

TEST(TrackedFacts, ParamsHaveNoPathsAndNoPlaces) {
  const auto resolved = load(kPlainConfig, {});
  for (const auto& [key, text] : tracked_params(tracked(resolved), Redactor({}))) {
    EXPECT_EQ(text.find("models/"), text.npos) << key;
    for (const char* section : {"mlflow.", "storage.", "logging.", "tracking.", "checkpoint."})
      EXPECT_FALSE(key.starts_with(section)) << key;
  }
}

TEST(TrackedFacts, TagsAreThoseOfMlflowClients) {
  const auto resolved = load(kPlainConfig, {});
  TrackedStart start{.words = {"train", "--config", "my run.yaml"},
                     .run_uid = "u1",
                     .user = "ada",
                     .is_job = true};
  TempDir folder;
  start.config_file = folder / "run.yaml";
  const NamedTexts tags = tracked_tags(tracked(resolved), start, Redactor({}));
  EXPECT_THAT(tags, Contains(Pair("mlflow.runName", "math")));
  EXPECT_THAT(tags, Contains(Pair("mlflow.user", "ada")));
  EXPECT_THAT(tags, Contains(Pair("mlflow.source.name", "wmtp train --config 'my run.yaml'")));
  EXPECT_THAT(tags, Contains(Pair("mlflow.source.type", "JOB")));
  EXPECT_THAT(tags, Contains(Pair("mlflow.note.content", "first try")));
  EXPECT_THAT(tags, Contains(Pair("wmtp.version", "1.2.3")));
  EXPECT_THAT(tags, Contains(Pair("wmtp.run_uid", "u1")));
  EXPECT_THAT(tags, Contains(Pair("wmtp.stage", "baseline")));
  EXPECT_THAT(tags, Contains(Pair("wmtp.tags", "a, b")));
  EXPECT_THAT(tags, Contains(Pair("wmtp.model.source", "models/llama")));
  EXPECT_THAT(tags, Not(Contains(Key("mlflow.source.git.commit"))));
  start.is_job = false;
  EXPECT_THAT(tracked_tags(tracked(resolved), start, Redactor({})),
              Contains(Pair("mlflow.source.type", "LOCAL")));
}

TEST(TrackedFacts, InputsAreTheDataSetsAsMlflowTakesThem) {
  const auto resolved = load(kPlainConfig, {});
  TrackedRun run = tracked(resolved);
  run.validation_digest = std::string(64, 'b');
  const OrderedJson inputs = tracked_inputs(run, Redactor({}));
  EXPECT_EQ(
      inputs.dump(),
      R"({"datasets":[{"tags":[{"key":"mlflow.data.context","value":"training"}],"dataset":{"name":"gsm",)"
      R"("digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","source_type":"local",)"
      R"("source":"{\"uri\":\"data/a.jsonl\",\"uris\":[\"data/a.jsonl\",\"data/b.jsonl\"]}",)"
      R"("profile":"{\"num_rows\":6,\"num_samples\":5,\"num_tokens\":70,\"num_targets\":40}"}},)"
      R"({"tags":[{"key":"mlflow.data.context","value":"validation"}],"dataset":{"name":"gsm validation",)"
      R"("digest":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","source_type":"local",)"
      R"("source":"{\"uri\":\"data/v.jsonl\"}","profile":"{}"}}]})");
}

// Each place has a canary of its own, so that a leak names it.
TEST(TrackedFacts, NoSecretIsToldAnywhere) {
  const Variables variables{{"AWS_ACCESS_KEY_ID", "canary-key-id"},
                            {"AWS_SECRET_ACCESS_KEY", "canary/aws+secret"},
                            {"AWS_SESSION_TOKEN", "canary-session"},
                            {"AWS_SECURITY_TOKEN", "canary-security"},
                            {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "canary-container"},
                            {"MLFLOW_TRACKING_USERNAME", "canary-mlflow-user"},
                            {"MLFLOW_TRACKING_PASSWORD", "canary-mlflow-pass"},
                            {"MLFLOW_TRACKING_TOKEN", "canary-mlflow-token"},
                            {"DATABRICKS_TOKEN", "canary-databricks"},
                            {"HF_TOKEN", "canary-hf"},
                            {"HUGGING_FACE_HUB_TOKEN", "canary-hub"},
                            {"WMTP_RUN_TOKEN", "canary-run-token-16"},
                            {"A_NAME", "canary-name"},
                            {"A_MODEL", "/canary-model"},
                            {"A_FOLDER", "/canary-data"},
                            {"A_RATE", "0.00123321"},
                            {"A_TAG", "canary-tag"}};
  const auto env = environment(variables);
  std::string all_secrets;
  for (const auto& [name, value] : variables)
    if (!name.starts_with("A_")) all_secrets += " " + value;
  const auto resolved = load(R"(
experiment:
  name: "${env:A_NAME}"
  stage: rho1
  tags: [plain, "${env:A_TAG}"]
  description: "see https://bob:canary-url/pass@host/x?sig=canary-query and)" +
                                 all_secrets + R"("
models:
  policy: {path: "${env:A_MODEL}/llama"}
  reference: {path: "s3://canary-s3-user:canary-s3-pass@bucket/ref", name: "ref-${experiment.name}"}
dataset: {train: ["${env:A_FOLDER}/a.jsonl"], validation: "https://canary-val@host/v.jsonl"}
training: {learning_rate: "${env:A_RATE}"}
mlflow: {tracking_uri: "https://canary-uri"}
storage: {s3: {endpoint: "https://canary-endpoint", prefix: canary-prefix}}
logging: {dir: /canary-logs}
)",
                             env);
  TrackedRun run = tracked(resolved);
  run.validation_digest = "b";
  const Redactor redact(env);
  const TrackedStart start{.words = {"train", "--override", "mlflow.tracking_uri=canary-word",
                                     "--override=storage={x: canary-word}", "--override",
                                     "dataset.name=http://u:canary-word@h/", "--override",
                                     "experiment.description=canary/aws+secret"},
                           .config_file = "run.yaml",
                           .user = "ada"};
  std::string told = tracked_inputs(run, redact).dump();
  for (const NamedTexts& texts : {tracked_params(run, redact), tracked_tags(run, start, redact)})
    for (const auto& [name, text] : texts) told += "\n" + name + "=" + text;
  EXPECT_EQ(told.find("canary"), told.npos) << told;
  EXPECT_EQ(told.find("00123321"), told.npos) << told;
  EXPECT_THAT(told, ::testing::HasSubstr("training.learning_rate=${env:A_RATE}"));
  EXPECT_THAT(told, ::testing::HasSubstr("see https://host/x?... and [hidden] "));
  EXPECT_THAT(told, ::testing::HasSubstr("wmtp.model.source=${env:A_MODEL}/llama"));
  EXPECT_THAT(told, ::testing::HasSubstr("${env:A_FOLDER}/a.jsonl"));
  EXPECT_THAT(told, ::testing::HasSubstr("wmtp.reference.source=s3://bucket/ref"));
  EXPECT_THAT(told, ::testing::HasSubstr("mlflow.tracking_uri=[hidden]"));
}

TEST(TrackedFacts, TextsAreValidUtf8) {
  EXPECT_EQ(Redactor({})("a\xff"), "a\xEF\xBF\xBD");
}

TEST(TrackedFacts, TheUserIsThatOfTheProcess) {
  EXPECT_FALSE(process_user().empty());
  ::setenv("USER", "somebody-else", 1);
  EXPECT_NE(process_user(), "somebody-else");
}

constexpr const char* kSha = "0123456789abcdef0123456789abcdef01234567";

TEST(GitCheckout, FindsTheCommitOfABranch) {
  TempDir folder;
  test::write_file(folder / ".git/HEAD", "ref: refs/heads/feature/x\n");
  test::write_file(folder / ".git/refs/heads/feature/x", std::string(kSha) + "\n");
  std::filesystem::create_directories(folder / "configs/deep");
  const auto found = find_git_checkout(folder / "configs/deep");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->commit, kSha);
  EXPECT_EQ(found->branch, "feature/x");
}

TEST(GitCheckout, FindsPackedAndDetachedCommits) {
  TempDir folder;
  test::write_file(folder / ".git/HEAD", "ref: refs/heads/main\n");
  test::write_file(folder / ".git/packed-refs", "# pack-refs with: peeled\n" +
                                                    std::string(40, 'f') + " refs/heads/main2\n" +
                                                    kSha + " refs/heads/main\n");
  const auto packed = find_git_checkout(folder.path());
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->commit, kSha);
  test::write_file(folder / ".git/HEAD", std::string(kSha) + "\n");
  const auto detached = find_git_checkout(folder.path());
  ASSERT_TRUE(detached);
  EXPECT_EQ(detached->commit, kSha);
  EXPECT_EQ(detached->branch, "");
}

TEST(GitCheckout, FindsTheCommitOfAWorktree) {
  TempDir folder;
  test::write_file(folder / "tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
  test::write_file(folder / "main/.git/worktrees/tree/HEAD", "ref: refs/heads/topic\n");
  test::write_file(folder / "main/.git/worktrees/tree/commondir", "../..\n");
  test::write_file(folder / "main/.git/refs/heads/topic", kSha);
  const auto found = find_git_checkout(folder / "tree");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->branch, "topic");
}

TEST(GitCheckout, WhatIsNoneOfGitsIsNone) {
  TempDir folder;
  test::write_file(folder / "secret", kSha);
  std::filesystem::create_directories(folder / ".git/refs");
  for (const char* head :
       {"", "ref: ", "ref: refs/../../secret", "ref: refs/heads/gone", "12345"}) {
    test::write_file(folder / ".git/HEAD", head);
    EXPECT_FALSE(find_git_checkout(folder.path())) << head;
  }
}

}  // namespace
}  // namespace wmtp::run
