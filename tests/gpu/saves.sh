#!/bin/bash
# Checkpoints of state on a GPU where host memory is too short for a copy of it: tests/gpu/saves.sh BUNDLE
# They verify, and their weights are those of the export, which takes another way from the GPU.
set -eu
wmtp=$(readlink -f "$1")/bin/wmtp
cd "$(mktemp -d)"
"$wmtp" data demo --out demo --rows 80 --seed 3
cat > run.yaml <<YAML
experiment: {name: saves, stage: baseline}
models:
  policy: {path: qwen3-0.6b, name: saves, tokenizer_path: demo, init: random,
           params: {dim: 256, n_layers: 4, n_heads: 4, n_kv_heads: 2, head_dim: 64, ffn_dim: 1021}}
dataset: {train: demo/train.jsonl, validation: null, max_length: 96}
training: {batch_size: 2, max_steps: 6, learning_rate: 1e-3}
checkpoint: {save_checkpoint_every: null, save_every_steps: 2, export_on_finish: hf}
runtime: {device: cuda}
YAML
WMTP_FAILPOINT=save.stage.memory:nth=1+=enospc "$wmtp" train --config run.yaml --defaults none --run-dir streamed 2> log
cat log
[ "$(grep -c 'host memory is too short for a copy of the state' log)" = 1 ]
"$wmtp" checkpoint verify streamed --all
"$wmtp" checkpoint export streamed --format hf --out exported
cmp exported/model.safetensors streamed/final/model.safetensors
"$wmtp" train --config run.yaml --defaults none --run-dir resumed --resume streamed/checkpoints/saves-4steps
"$wmtp" checkpoint verify resumed --all
