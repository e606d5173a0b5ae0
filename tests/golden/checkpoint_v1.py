"""Makes tests/golden/checkpoint_v1: a checkpoint of format version 1, written once by 3 ranks and never again. Later
versions must load it. Usage: checkpoint_v1.py BUILD/bin/wmtp_checkpoint_probe"""
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent

with tempfile.TemporaryDirectory() as folder:
    tensors = {"a.weight": torch.arange(60.0).reshape(10, 6), "b.bias": torch.arange(7.0),
               "optim.state.a.weight.exp_avg": -torch.arange(60.0).reshape(10, 6)}
    save_file(tensors, f"{folder}/in.safetensors")
    subprocess.run([sys.argv[1], "write", f"{folder}/in.safetensors", HERE / "checkpoint_v1", "golden", "3", "3"], check=True)
