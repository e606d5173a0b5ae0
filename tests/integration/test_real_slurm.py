"""A whole run on a real Slurm of two nodes, by the batch script that is shipped; the long tier has more of them."""
import pytest
from history import content_hash
from slurm_cluster import QWEN3, SlurmCluster, why_not
from tiny_runs import TinyRuns, environment, losses_by_step, starts, wait_for

STEPS = 60
SLOW = "step.begin:nth=1+=sleep:50"


@pytest.fixture(scope="module")
def cluster():
    if reason := why_not():
        pytest.skip(f"no Slurm here: {reason}")
    with SlurmCluster() as made:
        yield made


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("slurm"), steps=STEPS, every=1000)


def test_a_job_told_to_stop_is_requeued_and_ends_as_one_that_nobody_disturbed(cluster, runs):
    """It meets by what Slurm says, the undisturbed one at MASTER_ADDR."""
    cluster.call("srun", "--nodes=2", "--ntasks=2", *runs.command("calm", **QWEN3),
                 env={**cluster.environment, **environment(), "MASTER_ADDR": "n1"})
    job = cluster.submit_run("requeue.sbatch", runs, "stopped", variables={"WMTP_FAILPOINT": SLOW}, **QWEN3)
    wait_for(lambda: len(losses_by_step(runs, "stopped")) > 4)
    cluster.call("scancel", "--signal=USR1", job)
    facts = cluster.wait_for(job)
    text = (runs.folder / "stopped.out").read_text()
    assert (facts["JobState"], facts["ExitCode"], facts["Restarts"]) == ("COMPLETED", "0:0", "1"), text
    assert "[job] ended with 80: back into the queue" in text
    first, second = starts(runs, "stopped")
    assert {"job": job, "restart_count": 0, "source": "slurm", "world": 2, "resumed_step": None}.items() <= first.items()
    assert {"job": job, "restart_count": 1}.items() <= second.items() and 4 < second["resumed_step"] < STEPS
    assert runs.steps("stopped") == [second["resumed_step"], STEPS]
    assert content_hash(runs.checkpoint("stopped", STEPS)) == content_hash(runs.checkpoint("calm", STEPS))
    assert losses_by_step(runs, "stopped") == losses_by_step(runs, "calm")
