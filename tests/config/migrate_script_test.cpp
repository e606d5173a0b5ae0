#include "config/migrate_fixture.h"
#include "wmtp/config/migrate/script_call.h"

namespace wmtp::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MigrateScriptTest : public MigrateTest {
 protected:
  Migration script(const std::string& line) { return migrate_script(line, request("").env); }
  // Of the script's own flags.
  std::vector<std::string> flags(const std::string& flags) {
    std::vector<std::string> lines;
    const Migration migration = script("train.py " + flags);
    EXPECT_TRUE(migration.problems.empty()) << migration.problems.front().text;
    for (const std::string& line : changes(migration))
      if (line.find(" -") != line.npos && !line.starts_with("filled_in")) lines.push_back(line);
    return lines;
  }
};

TEST_F(MigrateScriptTest, WordsAreAShells) {
  EXPECT_THAT(shell_words("a 'b c'\\\n --d=\"e \\\" f\"  \\g ''"),
              ElementsAre("a", "b c", "--d=e \" f", "g", ""));
  EXPECT_THROW(shell_words("a 'b"), Error);
}

TEST_F(MigrateScriptTest, LaunchersBecomeOurs) {
  const auto command = [&](const std::string& line) { return script(line).command; };
  EXPECT_EQ(command("python train.py"), "wmtp train --config");
  EXPECT_EQ(command("A=1 /usr/bin/python3 -u -m pkg.train"), "wmtp train --config");
  EXPECT_EQ(command("torchrun --nproc-per-node=gpu --nnodes 2 --rdzv_endpoint a:29 "
                    "--rdzv_backend c10d -m pkg.train"),
            "wmtp launch --nproc auto --nnodes 2 --master-addr a --master-port 29 -- train "
            "--config");
  EXPECT_EQ(command("python -m torch.distributed.run --nproc_per_node 4 train.py"),
            "wmtp launch --nproc 4 -- train --config");
  EXPECT_EQ(command("srun -N 2 --gpus 8 python train.py"),
            "srun -N 2 --gpus 8 wmtp train --config");
  EXPECT_EQ(command("accelerate launch --num_processes 8 train.py"),
            "wmtp launch --nproc 8 -- train --config");
  EXPECT_THAT(changes(script("torchrun --odd 3 train.py")), Contains("not_migrated --odd -> "));
  for (const char* line : {"", "make all", "torchrun --nproc_per_node 8", "python -m"})
    EXPECT_THROW(script(line), Error) << line;
}

TEST_F(MigrateScriptTest, FlagsOfManySpellings) {
  EXPECT_THAT(flags("--learning_rate 3e-4 --bs 3 --seq-length=64"),
              ElementsAre("renamed --learning_rate -> training.learning_rate",
                          "not_migrated --bs -> ", "renamed --seq-length -> dataset.max_length"));
  EXPECT_THAT(flags("--sharding_strategy ShardingStrategy.HYBRID_SHARD --shard-group-size 4"),
              ElementsAre("translated --sharding_strategy -> distributed.fsdp.sharding_strategy: "
                          "HYBRID_SHARD",
                          "renamed --shard-group-size -> distributed.fsdp.shard_group_size"));
  EXPECT_THAT(flags("--no-reshard-after-forward --no-cpu-offload --param-dtype torch.float16"),
              ElementsAre("translated --no-reshard-after-forward -> "
                          "distributed.fsdp.sharding_strategy: SHARD_GRAD_OP",
                          "translated --no-cpu-offload -> distributed.fsdp.cpu_offload: false",
                          "translated --param-dtype -> distributed.fsdp.param_dtype: fp16"));
  EXPECT_THAT(flags("--mixed-precision no --activation-checkpointing selective --compile"),
              ElementsAre("translated --mixed-precision -> distributed.fsdp.mixed_precision: "
                          "false",
                          "translated --activation-checkpointing -> "
                          "distributed.fsdp.activation_checkpointing: light",
                          "dropped --compile -> "));
  EXPECT_THAT(flags("--seed 1 --beta1 0.8 --beta2 0.9 --optim adamw_torch --grad-clip 0"),
              ElementsAre("translated --seed -> runtime.seed: 1, data_sampling.seed: 1",
                          "translated --beta1 -> training.optimizer.betas: [0.8, 0.95]",
                          "translated --beta2 -> training.optimizer.betas: [0.8, 0.9]",
                          "translated --optim -> training.optimizer.type: adamw",
                          "translated --grad-clip -> training.max_grad_norm: null"));
  EXPECT_THAT(flags("--betas 0.8 0.9 --lora --lora-target-modules q_proj,v_proj --resume"),
              ElementsAre("renamed --betas -> training.optimizer.betas",
                          "translated --lora -> training.use_lora: true",
                          "translated --lora-target-modules -> training.lora.target_modules: "
                          "[q_proj, v_proj]",
                          "translated --resume -> checkpoint.resume: auto"));
}

TEST_F(MigrateScriptTest, WhatCannotBeTakenIsSaid) {
  EXPECT_THAT(
      flags("--resume ckpt/3 --optimizer sgd --lr --cpu-offload maybe --sharding-strategy odd x y"),
      ElementsAre("not_migrated --resume -> ", "not_migrated --optimizer -> ",
                  "not_migrated --lr -> ", "not_migrated --cpu-offload -> ",
                  "not_migrated --sharding-strategy -> "));
  EXPECT_THAT(changes(script("train.py && echo done")),
              AllOf(Contains("not_migrated && -> "), Contains("not_migrated done -> ")));
  EXPECT_THAT(script("train.py --a-secret hunter2 --api-key hunter2").yaml,
              AllOf(HasSubstr("# not migrated: --a-secret: \"***\""),
                    HasSubstr("# not migrated: --api-key: \"***\"")));
}

TEST_F(MigrateScriptTest, RequiredKeysAreFilledInAndSaid) {
  const Migration migration = script("python train_fsdp.py --model $MODELS/q --data d.jsonl");
  EXPECT_THAT(migration.yaml, AllOf(HasSubstr("path: \"${env:MODELS}/q\""),
                                    HasSubstr("train: d.jsonl"), HasSubstr("name: train_fsdp")));
  EXPECT_THAT(changes(migration), Contains("filled_in training.learning_rate -> "
                                           "training.learning_rate: 1e-4"));
  EXPECT_THAT(problems(script("train.py").yaml), IsEmpty());
}

}  // namespace
}  // namespace wmtp::config
