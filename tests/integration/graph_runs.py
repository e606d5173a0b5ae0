"""Runs whose steps are replayed as CUDA graphs (runtime.cuda_graphs), on the emulated GPU: its graph is the device's work with the
addresses and numbers that it had when it was recorded. What runs plainly instead of being replayed has the same padded batches: the
failpoint step.graph."""
import re

from tiny_runs import TinyRuns, losses_by_step, state_hash

PLAINLY = "step.graph:nth=1+=skip"  # executes what would be replayed
GRAPHS = {"runtime__device": "cuda", "runtime__cuda_graphs": "on", "runtime__deterministic": True, "runtime__threads": 1,
          "training__use_lora": False, "training__log_interval": 1, "training__eval_every_steps": 1000,
          "data_sampling__n_samples": None, "dataset__pack_multiple": 128, "checkpoint__save_every_steps": 1000}
WEIGHED = {"experiment__stage": "verifiable", "training__value": {"source": "model"}, "models__value_model__checkpoint_path": "critic"}
RHO1 = {"experiment__stage": "rho1", "models__reference__path": "critic"}


def emulated_runs(wmtp, folder):
    binary = wmtp.binary.parents[1] / "emulated/bin/wmtp"
    assert binary.exists(), "the tests' build makes it"
    return TinyRuns(type(wmtp)(binary), folder, steps=30)


def trained_critic(runs):
    """The checkpoint of a critic: a value model, or what a head of the policy's own begins with."""
    runs.run("critic", experiment__stage="critic", training__value_loss={"type": "mse", "bias_init": 0.5}, training__max_steps=6,
             training__backbone_frozen=False, checkpoint__save_every_steps=6, training__use_lora=False)
    return str(runs.checkpoint("critic", 6))


def of_stage(changes, critic):
    """Settings in which a path `critic` is that checkpoint."""
    return {**GRAPHS, **{key: critic if value == "critic" and "path" in key else value for key, value in changes.items()}}


def replayed(done):
    """Steps replayed, steps, shapes, graphs recorded: as the run says at its end."""
    said = re.search(r"(\d+) of (\d+) steps were replayed as CUDA graphs \(hit rate [\d.]+\): (\d+) shapes came, (\d+) graphs",
                     done.stdout + done.stderr)
    return tuple(map(int, said.groups()))


def assert_same_end(runs, one, other, steps):
    losses = losses_by_step(runs, one)
    assert len(losses) == steps and losses == losses_by_step(runs, other)
    assert state_hash(runs.checkpoint(one, steps)) == state_hash(runs.checkpoint(other, steps))


def assert_replays_are_plain(runs, name, steps, ranks=1, **settings):
    """A cache of its own for each: who is second finds nothing of the first."""
    settings = {**settings, "training__max_steps": steps}
    hits, *_ = replayed(runs.run(f"{name}-replayed", ranks=ranks, runtime__cache_dir=f"{runs.folder}/{name}-replayed-cache", **settings))
    runs.run(f"{name}-plain", ranks=ranks, failpoint=PLAINLY, runtime__cache_dir=f"{runs.folder}/{name}-plain-cache", **settings)
    assert hits > 2
    assert_same_end(runs, f"{name}-replayed", f"{name}-plain", steps)
