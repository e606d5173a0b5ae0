"""Whole runs on a real Slurm of two nodes, by the batch scripts that are shipped: stopped in every way there is, requeued,
and ended with the state of a run that nobody disturbed."""
import os
import signal
import time

import pytest
from doctor_tables import assert_bandwidths_are_told
from history import content_hash
from killed_ranks import mpirun_of_tests, torchrun_of_tests
from slurm_cluster import QWEN3, SlurmCluster, why_not
from tiny_runs import TinyRuns, losses_by_step, starts, wait_for

STEPS = 60
LEAVE_S = 20  # within which a rank has left whose peer is gone
UNSIGNALLED = "--signal=URG@1"  # a signal that nobody minds
SAVING = {**QWEN3, "checkpoint__save_every_steps": 5}  # each save is validated, which the end remembers


def slow(ms):
    return {"WMTP_FAILPOINT": f"step.begin:nth=1+=sleep:{ms}"}


@pytest.fixture(scope="module")
def cluster():
    if reason := why_not():
        pytest.skip(f"no Slurm here: {reason}")
    with SlurmCluster() as made:
        yield made


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("slurm"), steps=STEPS, every=1000)
    made.run("calm", ranks=2, **QWEN3)
    return made


def wait_for_steps(runs, name, count=4):
    wait_for(lambda: len(losses_by_step(runs, name)) > count)


def assert_ended_as_calm(cluster, runs, name, job, calm="calm", seconds=400):
    """Completed after one restart, which went on where the first start had saved."""
    facts = cluster.wait_for(job, seconds=seconds)
    text = (runs.folder / f"{name}.out").read_text()
    assert (facts["JobState"], facts["Restarts"]) == ("COMPLETED", "1"), text
    none, resumed = (start["resumed_step"] for start in starts(runs, name))
    assert none is None and 0 < resumed < STEPS
    assert content_hash(runs.checkpoint(name, STEPS)) == content_hash(runs.checkpoint(calm, STEPS))
    assert losses_by_step(runs, name) == losses_by_step(runs, calm)
    print(f"\n{name}: went on from step {resumed}, ended bit-equal")
    return text


@pytest.mark.parametrize("meeting", [{}, {"MASTER_ADDR": "n1"}, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29633"}])
def test_stopped_by_usr1(cluster, runs, meeting):
    name = f"usr1-{len(meeting)}"
    job = cluster.submit_run("requeue.sbatch", runs, name, variables={**slow(50), **meeting}, **QWEN3)
    wait_for_steps(runs, name)
    cluster.call("scancel", "--signal=USR1", job)
    assert_ended_as_calm(cluster, runs, name, job)


def test_stopped_before_its_time_limit_by_itself(cluster, runs):
    job = cluster.submit_run("requeue.sbatch", runs, "limit", flags=["--time=1", UNSIGNALLED], variables=slow(700),
                             runtime__stop_before_end_s=25, **QWEN3)
    text = assert_ended_as_calm(cluster, runs, "limit", job)
    assert "WMTP_STOP_AT=" in text and ", 25 s before it" in text


def test_stopped_before_its_time_limit_by_the_signal_of_slurm(cluster, runs):
    job = cluster.submit_run("requeue.sbatch", runs, "signal", flags=["--time=2", "--signal=USR1@30"],
                             variables=slow(2000), runtime__stop_before_end_s=0, **QWEN3)
    text = assert_ended_as_calm(cluster, runs, "signal", job)
    assert "the time limit is reached" not in text


def test_preempted_by_a_job_of_higher_priority(cluster, runs):
    job = cluster.submit_run("requeue.sbatch", runs, "preempted", variables=slow(50), **QWEN3)
    wait_for_steps(runs, "preempted")
    cluster.call("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    assert_ended_as_calm(cluster, runs, "preempted", job)


@pytest.fixture(scope="module")
def calm_saving(runs):
    runs.run("calm-saving", ranks=2, **SAVING)
    return "calm-saving"


def test_a_killed_rank(cluster, runs, calm_saving):
    job = cluster.submit_run("requeue.sbatch", runs, "killed", variables=slow(50), **SAVING)
    wait_for(lambda: runs.steps("killed"))
    os.kill(cluster.ranks(job)[1], signal.SIGKILL)
    text = assert_ended_as_calm(cluster, runs, "killed", job, calm=calm_saving)
    assert "[job] ended with 137: back into the queue" in text


def test_a_node_without_power(cluster, runs, calm_saving):
    """The rank on the other node leaves by itself. Slurm takes its time (SlurmdTimeout, 30 s here) to give the node up, and
    then requeues the job, which waits until the node is back."""
    job = cluster.submit_run("requeue.sbatch", runs, "lost", variables=slow(50), **SAVING)
    wait_for(lambda: runs.steps("lost"))
    begun = time.monotonic()
    cluster.cut_power("n2", cluster.ranks(job)[1])
    try:
        wait_for(lambda: not cluster.ranks(job))
        left_s = time.monotonic() - begun
        facts = cluster.wait_for(job, "PENDING")
        given_up_s = time.monotonic() - begun
        assert (facts["JobState"], facts["Restarts"], cluster.node_state("n2")) == ("PENDING", "1", "down*")
    finally:
        cluster.reboot("n2")
    text = assert_ended_as_calm(cluster, runs, "lost", job, calm=calm_saving)
    assert left_s < LEAVE_S and "n1: task 0: Exited with exit code 75" in text and "Node failure on n2" in text
    print(f"lost: the other rank left with 75 after {left_s:.1f} s, requeued by Slurm after {given_up_s:.0f} s")


def test_a_run_that_comes_to_no_checkpoint_ends_with_70(cluster, runs):
    job = cluster.submit_run("requeue.sbatch", runs, "storm", variables={"WMTP_FAILPOINT": "step.begin:nth=1=kill"}, **QWEN3)
    facts = cluster.wait_for(job, seconds=400)
    assert (facts["JobState"], facts["ExitCode"], facts["Restarts"]) == ("FAILED", "70:0", "3")


@pytest.mark.parametrize("script, flags", [("one_node.sbatch", ["--nodes=1", "--ntasks-per-node=2"]),
                                           ("several_nodes.sbatch", [])])
def test_without_a_way_back(cluster, runs, script, flags):
    """A run that is told to stop ends with 80; submitted again, it goes on."""
    name = script.partition(".")[0]
    job = cluster.submit_run(script, runs, name, flags=flags, variables=slow(50), **QWEN3)
    wait_for_steps(runs, name)
    cluster.call("scancel", "--signal=USR1", job)
    facts = cluster.wait_for(job)
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "80:0")
    job = cluster.submit_run(script, runs, name, flags=flags, **QWEN3)
    facts = cluster.wait_for(job)
    assert facts["JobState"] == "COMPLETED", (runs.folder / f"{name}.out").read_text()
    assert content_hash(runs.checkpoint(name, STEPS)) == content_hash(runs.checkpoint("calm", STEPS))


def test_doctor_measures_the_way_between_two_nodes(cluster, wmtp, tmp_path):
    told = cluster.call("srun", "--nodes=2", "--ntasks=2", wmtp.binary, "doctor", "--cluster", "--device", "cpu",
                        "--storage", tmp_path)
    assert "OK   cluster      2 ranks on 2 hosts over gloo" in told and "1 pairs across hosts" in told
    assert_bandwidths_are_told(told)


def test_torchrun_on_each_node(cluster, runs):
    job = cluster.submit_run("several_nodes_torchrun.sbatch", runs, "torchrun", flags=["--signal=B:USR1@60"],
                             variables={**slow(50), "TORCHRUN": torchrun_of_tests(), "RANKS": 1}, **QWEN3)
    wait_for_steps(runs, "torchrun")
    cluster.call("scancel", "--batch", "--signal=USR1", job)
    assert_ended_as_calm(cluster, runs, "torchrun", job)
    assert {start["source"] for start in starts(runs, "torchrun")} == {"torchrun"}


def test_mpirun_inside_a_job(cluster, runs):
    """Its daemons are a step of one task a node, whose variables the ranks have, too."""
    runs.run("calm-4", ranks=4, **QWEN3)
    script = runs.folder / "mpirun.sbatch"
    script.write_text('#!/bin/bash\nexec "$@"\n')
    job = cluster.submit(script, *mpirun_of_tests(4, "--map-by", "node", "-x", "MASTER_ADDR=n1", "-x", "MASTER_PORT=29653"),
                         *runs.command("mpirun", **QWEN3), flags=["--nodes=2", "--ntasks-per-node=2"],
                         output=runs.folder / "mpirun.out")
    assert cluster.wait_for(job)["JobState"] == "COMPLETED", (runs.folder / "mpirun.out").read_text()
    (start,) = starts(runs, "mpirun")
    assert (start["source"], start["world"], start["job"]) == ("openmpi", 4, job)
    assert content_hash(runs.checkpoint("mpirun", STEPS)) == content_hash(runs.checkpoint("calm-4", STEPS))
