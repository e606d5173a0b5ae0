"""Two ranks of wmtp equal two ranks of PyTorch FSDP2: losses, gradient norms and weights after five steps."""
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest
from safetensors.numpy import load_file
from tolerance import near, within

HERE = pathlib.Path(__file__).resolve().parent
RATE = "1e-3"


def torchrun(*words):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_two_ranks_equal_fsdp2(strategy, wmtp, tmp_path):
    probe = pathlib.Path(wmtp.binary).parent / "wmtp_train_probe"
    torchrun("--no-python", probe, "--preset", "micro", "--strategy", strategy, "--lr", RATE, "--out", tmp_path)
    torchrun(HERE / "fsdp2_repeat.py", tmp_path, "micro", RATE)
    ours, theirs = (json.loads((tmp_path / name).read_text()) for name in ("run.json", "torch.json"))
    near(ours["losses"], theirs["losses"], rel=2e-5)
    near(ours["grad_norms"], theirs["grad_norms"], rel=1e-4)
    start, end, torch_end = (load_file(tmp_path / f"{n}.safetensors") for n in ("start", "end", "torch"))
    assert end.keys() == torch_end.keys()
    for name in end:
        update = numpy.linalg.norm(torch_end[name] - start[name])
        assert update > 0
        within(numpy.linalg.norm(end[name] - torch_end[name]), 1e-3 * update, name)
