"""Whole runs under torchrun and mpirun, and a run that goes from one launcher and number of ranks to the next."""
import json
import os
import signal
import subprocess

import pytest
from doctor_tables import assert_bandwidths_are_told
from history import content_hash
from killed_ranks import mpirun_of_tests, ranks_below, run_with_kills, torchrun_of_tests
from slurm_cluster import SlurmCluster
from slurm_cluster import why_not as why_no_slurm
from tiny_runs import TinyRuns, children, environment, losses_by_step, starts, wait_for

STEPS = 60
# On a busy machine a save that has not ended would let the next one be left out.
KEYS = {"training__log_interval": 1, "checkpoint__async": False}
TOLERANCE = 1e-5  # relative; other ranks add up in another order, no more


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("launchers"), steps=STEPS, every=5)


def torchrun(world, restarts=0):
    return [torchrun_of_tests(), "--standalone", "--no-python", f"--max-restarts={restarts}", f"--nproc-per-node={world}"]


@pytest.mark.parametrize("world", [2, 4])
def test_kills_under_torchrun(runs, world):
    runs.run(f"calm-{world}", ranks=world, **KEYS)
    code, text = run_with_kills(runs, f"killed-{world}", torchrun(world, restarts=3), world, kills=3, **KEYS)
    assert code == 0, text
    assert [start["restart_count"] for start in starts(runs, f"killed-{world}")] == [0, 1, 2, 3]
    for name in (f"calm-{world}", f"killed-{world}"):
        assert runs.steps(name)[-1] == STEPS
    assert content_hash(runs.checkpoint(f"killed-{world}", STEPS)) == content_hash(runs.checkpoint(f"calm-{world}", STEPS))
    assert losses_by_step(runs, f"killed-{world}") == losses_by_step(runs, f"calm-{world}")
    print(f"\ntorchrun, {world} ranks: 3 kills, ended bit-equal")


def run_to_its_end(argv, seconds=120):
    """BLOCKS. A launcher that does not come to its end fails the test with the state of all there is below it."""
    process = subprocess.Popen(list(map(str, argv)), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        pids = ",".join(map(str, [process.pid, *children(process.pid)]))
        threads = subprocess.run(["ps", "-L", "-o", "pid,ppid,stat,wchan:32,comm", "-p", pids], capture_output=True, text=True).stdout
        process.kill()
        pytest.fail(f"{argv[:8]} has not ended after {seconds} s:\n{threads}")
    assert process.returncode == 0, text


@pytest.mark.parametrize("meeting", [[], ["-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29643"]])
def test_mpirun(runs, meeting):
    """It starts nothing again: the same command goes on after a kill and after a stop."""
    name = f"mpi-{len(meeting)}"
    runs.run(f"calm-{name}", ranks=2, **KEYS)
    argv = [*mpirun_of_tests(2, *meeting), *runs.command(name, **KEYS)]
    for end in ("kill", "stop"):
        before = max(runs.steps(name), default=0)
        process = subprocess.Popen(argv, env=environment("step.begin:nth=1+=sleep:50"), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        wait_for(lambda: max(runs.steps(name), default=0) > before or process.poll() is not None, seconds=400)
        os.kill(ranks_below(process.pid)[1], signal.SIGKILL if end == "kill" else signal.SIGUSR1)
        text = process.communicate(timeout=120)[0]
        # mpirun kills the others on their way out; a rank that it killed says nothing of a code.
        assert process.returncode == (137 if end == "kill" else 80), text
    run_to_its_end(argv)
    assert {start["source"] for start in starts(runs, name)} == {"openmpi"} and len(starts(runs, name)) == 3
    assert content_hash(runs.checkpoint(name, STEPS)) == content_hash(runs.checkpoint(f"calm-{name}", STEPS))
    assert losses_by_step(runs, name) == losses_by_step(runs, f"calm-{name}")


@pytest.mark.parametrize("meeting", [[], ["-x", "MASTER_ADDR=127.0.0.1", "-x", "MASTER_PORT=29644"]])
def test_doctor_measures_the_way_between_ranks_of_mpirun(wmtp, tmp_path, meeting):
    argv = [*mpirun_of_tests(2, *meeting), wmtp.binary, "doctor", "--cluster", "--device", "cpu", "--storage", tmp_path]
    done = subprocess.run(list(map(str, argv)), env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK   launcher     openmpi: rank 0 of 2" in done.stdout
    assert "OK   cluster      2 ranks on 1 hosts over gloo" in done.stdout
    assert_bandwidths_are_told(done.stdout)


def run_until_stopped(runs, name, argv, env):
    """BLOCKS. Asked by the stop file, which works whatever the launcher makes of signals, once a new step is there."""
    told = len(losses_by_step(runs, name))
    process = subprocess.Popen(list(map(str, argv)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(lambda: len(losses_by_step(runs, name)) > told + 2 or process.poll() is not None, seconds=400)
    if process.poll() is None:
        (runs.folder / name / "STOP").touch()
    text = process.communicate(timeout=120)[0]
    assert json.loads((runs.folder / name / "last_exit.json").read_text())["code"] == 80, text


def test_from_four_ranks_to_two_to_three_by_three_launchers(runs):
    """The same samples in the same order: the losses of a run of one rank, but for rounding, and its place in the data."""
    if reason := why_no_slurm():
        pytest.skip(f"no Slurm here: {reason}")
    keys = {**KEYS, "training__global_batch_size": 24, "data_sampling__n_samples": 40, "training__use_lora": False,
            "checkpoint__save_best": False}
    runs.run("one", **keys)
    command = runs.command("moved", **keys)
    with SlurmCluster() as cluster:
        srun = ["srun", "--nodes=2", "--ntasks=4", "--kill-on-bad-exit=0"]
        env = {**cluster.environment, **environment("step.begin:nth=1+=sleep:100")}
        run_until_stopped(runs, "moved", [*srun, *command], env)
    run_until_stopped(runs, "moved", [*torchrun(2), *command], environment("step.begin:nth=1+=sleep:100"))
    run_to_its_end([*mpirun_of_tests(3), *command])
    found = starts(runs, "moved")
    assert [(start["source"], start["world"]) for start in found] == [("slurm", 4), ("torchrun", 2), ("openmpi", 3)]
    first, second = (start["resumed_step"] for start in found[1:])
    assert 0 < first < second < STEPS
    ends = [json.loads((runs.checkpoint(name, STEPS) / "trainer_state.json").read_text()) for name in ("one", "moved")]
    for key in ("step", "epoch", "samples_seen", "tokens_seen", "cursor", "rng"):
        assert ends[0][key] == ends[1][key], key
    straight, moved = losses_by_step(runs, "one"), losses_by_step(runs, "moved")
    assert list(moved) == list(straight) and all(len(values) == 1 for values in moved.values())
    assert {step: min(v) for step, v in moved.items()} == \
        pytest.approx({step: min(v) for step, v in straight.items()}, rel=TOLERANCE)
    print(f"\n4 -> 2 at step {first} -> 3 at step {second} -> {STEPS}: same samples, losses equal within {TOLERANCE:g}")
