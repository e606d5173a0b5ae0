"""`wmtp launch --slurm FILE`: the script it writes, under a srun that only writes down what it is asked."""
import os
import subprocess

import pytest
from fake_slurm import PLAIN_FLAGS, Cluster, find_shellcheck

TRAIN = ["--", "train", "--config", "run of today.yaml", "--override", "experiment.name=it's $HOME"]


def write(wmtp, path, *flags, train=TRAIN):
    wmtp.run("launch", "--slurm", path, *flags, *train)
    return path


@pytest.mark.parametrize("flags", [("--nproc", 8), ("--nproc", 8, "--nnodes", 3), ("--nproc", 8, "--max-restarts", 0),
                                   ("--nproc", 8, "--nnodes", 3, "--max-restarts", 0)])
def test_the_script_starts_the_command_and_shellcheck_finds_nothing(wmtp, tmp_path, flags):
    script = write(wmtp, tmp_path / "job.sbatch", *flags, "--env", "NCCL_DEBUG=INFO", "--env", "NOTE=two $words")
    cluster = Cluster(tmp_path)
    job = cluster.run(script, "--max-steps", "3", CONFIG=None, RUN_DIR=None, FAKE_RC="80")
    assert job.returncode == 80, job.err
    (step,) = cluster.steps
    assert step["flags"] == PLAIN_FLAGS
    assert step["command"] == [os.path.realpath(wmtp.binary), *TRAIN[1:], "--resume", "auto", "--max-steps", "3"]
    assert step["environment"]["NCCL_DEBUG"] == "INFO" and step["environment"]["NOTE"] == "two $words"
    assert cluster.asked("scontrol") == ([] if "--max-restarts" in flags else ["requeue 77"])
    lines = script.read_text().splitlines()
    nodes = flags[flags.index("--nnodes") + 1] if "--nnodes" in flags else 1
    assert {f"#SBATCH --nodes={nodes}", "#SBATCH --ntasks-per-node=8", "#SBATCH --gpus-per-node=8"} <= set(lines)
    checked = subprocess.run([find_shellcheck(), str(script)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("flags, said", [
    (["--nproc", 2, "--node-rank", 0], "--node-rank"), (["--nproc", 2, "--master-addr", "a"], "--master-addr"),
    (["--nproc", 2, "--master-port", 1], "--master-port"), (["--nproc", 2, "--grace-s", 9], "--grace-s"),
    (["--nproc", 2, "--log-dir", "d"], "--log-dir"), (["--nproc", 2, "--tee", "all"], "--tee"),
    (["--nproc", 2, "--bind", "numa"], "--bind"), ([], "--nproc"), (["--nproc", 2, "--env", "RANK=1"], "--env RANK")])
def test_options_without_a_place_in_the_script_are_refused_by_name(wmtp, tmp_path, flags, said):
    script = tmp_path / "job.sbatch"
    assert said in wmtp.error("launch", "--slurm", script, *flags, *TRAIN, code=78)["message"]
    assert not script.exists()


def test_only_train_is_written_and_no_file_is_written_over(wmtp, tmp_path):
    script = tmp_path / "job.sbatch"
    assert "train" in wmtp.error("launch", "--slurm", script, "--nproc", 2, "--", "doctor", code=78)["message"]
    assert wmtp.json("launch", "--slurm", script, "--nproc", 2, *TRAIN)["slurm"] == str(script)
    before = script.read_text()
    assert "exists" in wmtp.error("launch", "--slurm", script, "--nproc", 2, *TRAIN, code=78)["message"]
    assert script.read_text() == before
