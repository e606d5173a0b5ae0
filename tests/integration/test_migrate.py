"""`wmtp migrate`: old configurations, rewritten, train as ones written by hand do; scripts become configurations; what has no
counterpart is said and ends with 78."""
import json
import os

import pytest
from tiny_runs import environment

SHAPE = "{dim: 32, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 16, ffn_dim: 48}"

# The layer that the Python project merged below every stage file.
OLD_DEFAULTS = """
project: {name: weighted-mtp, version: "2.0.0"}
storage:
  root: ${oc.env:WMTP_TEST_DATA}
  datasets_dir: ${storage.root}
models:
  policy:
    path: micro
    name: tiny
    init: random
    tokenizer_path: ${storage.root}
    dtype: float32
    params: {dim: 32, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 16, ffn_dim: 48, n_future_tokens: 4}
dataset:
  train: ${storage.datasets_dir}/train.jsonl
  max_length: 112
  batch_size: 2
training: {learning_rate: 3e-3, max_steps: 3, log_interval: 1, scheduler: {type: cosine, warmup_ratio: 0.1}}
runtime: {device: cpu, threads: 1, seed: 7, mixed_precision: false}
mlflow: {tracking_uri: "file://./mlruns", experiment_name: ""}
logging: {level: INFO, format: "%(asctime)s %(message)s"}
checkpoint: {save_total_limit: 1, save_best: False}
"""
# The same by hand; what differs from stage to stage is below.
NEW = """
experiment: {{name: {stage}, stage: {stage}}}
models: {{policy: {{path: {path}, name: tiny, tokenizer_path: {data}, dtype: fp32{policy}}}{models}}}
dataset: {{train: {data}/train.jsonl, max_length: 112}}
data_sampling: {{{sampling}}}
training:
  batch_size: 2
  learning_rate: 3e-3
  max_steps: 3
  log_interval: 1
  lr_scheduler: {{type: cosine, warmup_ratio: 0.1}}
{training}
checkpoint: {{save_total_limit: 2, save_best: false}}
distributed: {{fsdp: {{mixed_precision: false}}}}
runtime: {{device: cpu, threads: 1, seed: 7}}
"""
SIZES = f", n_future_tokens: 4, params: {SHAPE}"
RANDOM = ", init: random" + SIZES

STAGES = {
    "baseline": ("""
experiment: {name: baseline, stage: baseline}
data_sampling: {n_samples: 24, difficulty_range: [1, 5], correct_ratio: 1.0, balance_correct: false}
training: {weight_mode: uniform, temperature: 1.0, td_lambda: 0.9}
""", dict(policy=RANDOM, path="micro", models="", training="",
          sampling="n_samples: 24, difficulty_bins: {all: [1, 5]}, difficulty_weights: {all: 1.0}, balance_correct: true, "
                   "correct_ratio: 1.0")),
    "critic": ("""
experiment: {name: critic, stage: critic}
models: {policy: {path: "${oc.env:WMTP_TEST_RUNS}/baseline/final", init: pretrained}, value_model: {name: sheared, dtype: bfloat16}}
data: {sampling: {stage1: {n_samples: 24, balance_correct: yes}, stage2: {n_samples: 8}}}
training: {trunk_frozen: false, value_head: {learning_rate: 1e-2}, value_loss: {type: mse, bias_init: 0.5}, k_percent: 0.6}
""", dict(policy=SIZES, path="{runs}/baseline/final", models="", sampling="n_samples: 24, balance_correct: true",
          training="  backbone_frozen: false\n  value_head: {learning_rate: 1e-2}\n  value_loss: {type: mse, bias_init: 0.5}")),
    "verifiable": ("""
experiment: {name: verifiable, stage: baseline}
models:
  policy: {path: "${oc.env:WMTP_TEST_RUNS}/baseline/final", init: pretrained}
  value_model: {path: models/sheared, checkpoint_path: "${oc.env:WMTP_TEST_RUNS}/critic/final"}
  reward: {name: rm}
data_sampling: {n_samples: 24}
training: {weight_mode: critic, td_lambda: 0.9, beta: 0.7, weight_clip_min: 0.2, weight_clip_max: 2.5, td_ema_momentum: 0.2,
  td_ema_warmup_steps: 4}
""", dict(policy=SIZES, path="{runs}/baseline/final", sampling="n_samples: 24",
          models=", value_model: {{checkpoint_path: {runs}/critic/final}}",
          training="  value: {source: model}\n  td: {mode: gae, lambda: 0.9, beta: 0.7, clip_min: 0.2, clip_max: 2.5, "
                   "ema_momentum: 0.2, ema_warmup_steps: 4}")),
    "rho1": ("""
experiment: {name: rho1, stage: rho1}
models: {reference: {path: "${oc.env:WMTP_TEST_RUNS}/baseline/final", tokenizer_shared_with: policy, dtype: float32}}
data_sampling: {n_samples: 24}
training: {rho1_mode: absolute, k_percent: 0.4, temperature: 0.5, use_lora: true, lora: {rank: 4, target_modules: [q_proj, v_proj]}}
""", dict(policy=RANDOM, path="micro", sampling="n_samples: 24",
          models=", reference: {{path: {runs}/baseline/final, dtype: fp32}}",
          training="  rho1: {mode: absolute, k_percent: 0.4}\n  use_lora: true\n  lora: {rank: 4, target_modules: [q_proj, v_proj]}")),
}


@pytest.fixture(scope="module")
def folder(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("migrate")
    wmtp.run("data", "demo", "--out", folder / "data", "--rows", "80", "--seed", "3")
    (folder / "old").mkdir()
    (folder / "old/defaults.yaml").write_text(OLD_DEFAULTS)
    return folder


def train(wmtp, config, run_dir, env):
    """The losses of a run, each step's."""
    words = ["train", "--config", config, "--defaults", "none", "--run-dir", run_dir, "--override", "checkpoint.export_on_finish=hf"]
    lora = "use_lora: true" in config.read_text()
    wmtp.run(*(words[:-2] if lora else words), env={**environment(), **env})
    points = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [point["train/loss"] for point in points if "train/loss" in point]


def test_migrated_stages_train_as_written_by_hand(wmtp, folder):
    env = {"WMTP_TEST_DATA": str(folder / "data"), "WMTP_TEST_RUNS": str(folder / "migrated")}
    for stage, (old, new) in STAGES.items():
        (folder / f"old/{stage}.yaml").write_text(old)
        out = folder / f"{stage}.yaml"
        result = wmtp.json("migrate", folder / f"old/{stage}.yaml", "--out", out, env=env)
        assert result["not_migrated"] == 0 and result["yaml"] == out.read_text()
        wmtp.run("validate", "--config", out, "--defaults", "none", "--no-check-paths", env=env)

        places = dict(data=folder / "data", runs=folder / "migrated")
        parts = {key: value.format(**places) if key in ("models", "path") else value for key, value in new.items()}
        by_hand = folder / f"{stage}_by_hand.yaml"
        by_hand.write_text(NEW.format(stage=stage, **places | parts))
        losses = train(wmtp, out, folder / "migrated" / stage, env)
        assert len(losses) == 3 and losses == train(wmtp, by_hand, folder / "by_hand" / stage, env), stage
        words = ["validate", "--config", out, "--diff", by_hand, "--defaults", "none"]
        assert wmtp.run(*words, env=env).stdout == "0 differences\n"


PRODUCTION = """# The policy of the summer
project: {name: weighted-mtp}
experiment: {name: production run/1, stage: verifiable, tags: [gae, 7b]}
models:
  policy: {path: "${storage.models_dir}/meta-llama-mtp", params: {n_future_tokens: 4, dim: 4096}, dtype: bfloat16}
  value_model: {checkpoint_path: s3-copy/critic.pt, base_model_path: "${storage.models_dir}/sheared"}
storage: {root: storage, models_dir: "${storage.root}/models_v2"}
dataset: {train: "${oc.env:DATA_DIR,/data}/train.jsonl", validation: "${oc.env:DATA_DIR}/val.jsonl"}
data_sampling: {n_samples: 200_000, correct_ratio: 1.0}
training:
  n_epochs: 1.5
  batch_size: 8
  gradient_accumulation_steps: 4
  learning_rate: 1e-5
  bf16: true
  use_lora: true
  lora: {rank: 64, alpha: 128, dropout: 0.05, target_modules: [wq, wk, wv, wo, w1, w2, w3]}
  td_lambda: 0.95
checkpoint: {save_dir: "${runtime.run_dir}/ckpt", save_checkpoint_every: 0.2, save_total_limit: 1}
runtime: {device: "cuda:0", fsdp: {sharding_strategy: full_shard, activation_checkpointing: True}}
mlflow: {tracking_uri: "${oc.env:MLFLOW_TRACKING_URI}", experiment_name: weighted-mtp/production, s3_artifacts: "s3://wmtp/artifacts/"}
"""


def test_a_production_file_with_adapters_validates(wmtp, tmp_path):
    (tmp_path / "old.yaml").write_text(PRODUCTION)
    done = wmtp.run("migrate", tmp_path / "old.yaml")
    assert "MLFLOW_TRACKING_URI is not set here" in done.stderr and "0 not_migrated" in done.stderr
    (tmp_path / "new.yaml").write_text(done.stdout)
    env = {"MLFLOW_TRACKING_URI": "http://tracking:5000", "DATA_DIR": "/d"}
    said = wmtp.json_lines("validate", "--config", tmp_path / "new.yaml", "--defaults", "none", "--no-check-paths", "--resolved", env=env)
    resolved = said[0]["resolved"]
    for line in ("name: production-run-1", "path: storage/models_v2/meta-llama-mtp", "n_future_tokens: 4",
                 "n_samples: 200000", "balance_correct: true", "mode: gae", "source: model", "save_total_limit: 2", "device: cuda",
                 "sharding_strategy: FULL_SHARD", "activation_checkpointing: block", "bucket: wmtp", "prefix: artifacts",
                 "s3_upload: true", "experiment: weighted-mtp/production", "mixed_precision: true", "train: [/d/train.jsonl]"):
        assert f" {line}\n" in resolved, line


SCRIPT = ("CUDA_VISIBLE_DEVICES=0,1 torchrun --standalone --nproc_per_node 2 fsdp2_train.py --model-name Qwen/Qwen3-0.6B "
          "--explicit-prefetching --mixed-precision --dcp-api --cpu-offload --batch-size 1 --seq-len=8192 --lr 1e-4 --max-steps 100 "
          "--save-every 50 --gradient-accumulation 4 --warmup-steps 10 --weight-decay 0.1 --activation-checkpointing "
          "--sharding-strategy SHARD_GRAD_OP --beta2 0.98")


def test_a_script_becomes_a_configuration(wmtp, tmp_path):
    out = tmp_path / "new.yaml"
    lines = wmtp.json_lines("migrate", "--script", SCRIPT, "--out", out)
    assert {line["type"] for line in lines} == {"change", "result"}
    told = {line["key"]: line for line in lines if line["type"] == "change"}
    assert told["--dcp-api"]["action"] == "dropped" and "sharded" in told["--dcp-api"]["why"]
    assert told["dataset.train"]["action"] == "filled_in"
    assert lines[-1]["command"] == "wmtp launch --nproc 2 -- train --config"
    resolved = wmtp.json_lines("validate", "--config", out, "--defaults", "none", "--no-check-paths", "--resolved")[0]["resolved"]
    for line in ("name: fsdp2_train", "path: Qwen/Qwen3-0.6B", "format: text", "max_length: 8192", "batch_size: 1",
                 "gradient_accumulation_steps: 4", "learning_rate: 1e-04", "max_steps: 100", "save_every_steps: 50",
                 "warmup_steps: 10", "weight_decay: 0.1", "sharding_strategy: SHARD_GRAD_OP", "mixed_precision: true",
                 "cpu_offload: true", "activation_checkpointing: block", "forward: 2", "backward: 2", "betas: [0.9, 0.98]"):
        assert f" {line}\n" in resolved, line


def test_what_has_no_counterpart_ends_with_78_or_is_a_comment(wmtp, tmp_path):
    out = tmp_path / "new.yaml"
    words = ["migrate", "--script", "torchrun train.py --lr 1e-4 --use-magic 3", "--out", out]
    assert "1 not migrated: --use-magic" in wmtp.error(*words, code=78)["message"] and not out.exists()
    wmtp.run(*words, "--allow-unknown")
    assert "\n# not migrated: --use-magic: 3 (" in out.read_text()
    wmtp.run("validate", "--config", out, "--defaults", "none", "--no-check-paths")
    assert f"{out} exists" in wmtp.error(*words, "--allow-unknown", code=78)["message"]
    wmtp.run(*words, "--allow-unknown", "--force")
    assert os.stat(out).st_mode & 0o777 == 0o644


@pytest.mark.parametrize("text,said", [
    ("training: {learning_rate: 1e-4\n", "old.yaml:2:1"),
    ("training: {a: 1, a: 2}\n", "old.yaml:1:18: training.a: duplicate key"),
    ("experiment: {name: x, stage: baseline}\nmodels: {policy: {path: m}}\ndataset: {train: d}\n",
     "old.yaml: training.learning_rate: required key is missing"),
    ("experiment: {name: x, stage: baseline}\nmodels: {policy: {path: m}}\ndataset: {train: d}\ntraining: {lr: -1}\n",
     "old.yaml:4:12: training.learning_rate: -1 is out of range"),
    ("- a\n", "old.yaml:1:1: expected a map of sections, found a list"),
])
def test_bad_files_are_refused_by_line_and_column(wmtp, tmp_path, text, said):
    (tmp_path / "old.yaml").write_text(text)
    assert said in wmtp.error("migrate", "old.yaml", code=78, cwd=tmp_path)["message"]
