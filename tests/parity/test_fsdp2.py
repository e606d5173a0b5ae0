"""Ranks of wmtp equal ranks of PyTorch FSDP2, sharded and in groups (HSDP): losses, gradient norms and weights after five
steps."""
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


def torchrun(ranks, *words):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


def expect_equal_runs(wmtp, folder, ranks, strategy, replicas=None):
    probe = pathlib.Path(wmtp.binary).parent / "wmtp_train_probe"
    grouped = ["--group-size", ranks // replicas] if replicas else []
    torchrun(ranks, "--no-python", probe, "--preset", "micro", "--strategy", strategy, *grouped, "--lr", RATE, "--out", folder)
    torchrun(ranks, HERE / "fsdp2_repeat.py", folder, "micro", RATE, *([replicas] if replicas else []))
    ours, theirs = (json.loads((folder / name).read_text()) for name in ("run.json", "torch.json"))
    near(ours["losses"], theirs["losses"], rel=2e-5)
    near(ours["grad_norms"], theirs["grad_norms"], rel=1e-4)
    start, end, torch_end = (load_file(folder / f"{n}.safetensors") for n in ("start", "end", "torch"))
    assert end.keys() == torch_end.keys()
    for name in end:
        update = numpy.linalg.norm(torch_end[name] - start[name])
        assert update > 0
        within(numpy.linalg.norm(end[name] - torch_end[name]), 1e-3 * update, name)


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_two_ranks_equal_fsdp2(strategy, wmtp, tmp_path):
    expect_equal_runs(wmtp, tmp_path, 2, strategy)


def test_two_groups_of_two_ranks_equal_hsdp(wmtp, tmp_path):
    expect_equal_runs(wmtp, tmp_path, 4, "HYBRID_SHARD", replicas=2)


@pytest.mark.skipif("WMTP_SOAK" not in os.environ, reason="the long tier (make soak ONLY=hybrid)")
@pytest.mark.parametrize("replicas", [2, 4])
def test_eight_ranks_equal_hsdp(replicas, wmtp, tmp_path):
    expect_equal_runs(wmtp, tmp_path, 8, "HYBRID_SHARD", replicas)
