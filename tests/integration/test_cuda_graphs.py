"""Steps replayed as CUDA graphs (runtime.cuda_graphs), on the emulated GPU: its graph is the device's work with the addresses and
numbers that it had when it was recorded. What runs plainly instead of being replayed has the same padded batches: the failpoint step.graph."""
import re

import pytest
from tiny_runs import TinyRuns, error_of, losses_by_step, metrics, state_hash

PLAINLY = "step.graph:nth=1+=skip"  # executes what would be replayed
GRAPHS = {"runtime__device": "cuda", "runtime__cuda_graphs": "on", "runtime__deterministic": True, "runtime__threads": 1,
          "training__use_lora": False, "training__log_interval": 1, "training__eval_every_steps": 1000,
          "data_sampling__n_samples": None, "dataset__pack_multiple": 128, "checkpoint__save_every_steps": 1000}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    binary = wmtp.binary.parents[1] / "emulated/bin/wmtp"
    assert binary.exists(), "the tests' build makes it"
    return TinyRuns(type(wmtp)(binary), tmp_path_factory.mktemp("graphs"), steps=40)


def replayed(done):
    """Steps replayed, steps, shapes, graphs recorded: as the run says at its end."""
    said = re.search(r"(\d+) of (\d+) steps were replayed as CUDA graphs \(hit rate [\d.]+\): (\d+) shapes came, (\d+) graphs",
                     done.stdout + done.stderr)
    return tuple(map(int, said.groups()))


def test_replayed_steps_have_the_bits_of_plain_ones(runs):
    """A step is not replayed where its shapes come for the first or the second time, and the demo's packed rows have few shapes."""
    done = runs.run("replayed", **GRAPHS)
    assert "runtime.cuda_graphs has never run on a GPU" in done.stdout + done.stderr
    hits, steps, shapes, recorded = replayed(done)
    assert (steps, hits) == (40, 40 - shapes - recorded) and shapes <= 5
    shares = [point["perf/graph_hits"] for point in metrics(runs, "replayed") if "perf/graph_hits" in point]
    assert shares[0] == 0 and shares[-1] == pytest.approx(hits / steps, abs=2 / steps)
    plainly = runs.run("plain", failpoint="step.graph:nth=1+=skip", **GRAPHS)
    assert replayed(plainly) == (0, 40, 0, 0)
    losses = losses_by_step(runs, "replayed")
    assert len(losses) == 40 and losses == losses_by_step(runs, "plain")
    assert state_hash(runs.checkpoint("replayed", 40)) == state_hash(runs.checkpoint("plain", 40))


def test_a_resumed_run_has_the_same_bits(runs):
    short = {**GRAPHS, "training__lr_scheduler": {"type": "constant", "warmup_ratio": 0}, "training__max_steps": 12}
    runs.run("whole", **short)
    runs.run("cut", "--max-steps", "5", **short)
    hits, steps, *_ = replayed(runs.run("cut", **short))
    assert steps == 7 and hits > 0
    assert losses_by_step(runs, "cut") == losses_by_step(runs, "whole")
    assert state_hash(runs.checkpoint("cut", 12)) == state_hash(runs.checkpoint("whole", 12))


@pytest.mark.parametrize("name, changes", [
    ("micro-batches", {"training__gradient_accumulation_steps": 2, "training__batch_size": 1}),
    ("padded-rows", {"dataset__packing": False, "dataset__pack_multiple": None, "dataset__pad_to": "max_length"}),
    ("adapters", {"training__use_lora": True, "training__lora": {"rank": 4, "dropout": 0}, "models__policy__dtype": "bf16"}),
    ("dropout", {"training__use_lora": True, "training__lora": {"rank": 4, "dropout": 0.2}, "models__policy__dtype": "bf16"}),
    ("cudnn", {"runtime__attention": "cudnn"}),
    ("fp32", {"distributed__fsdp__param_dtype": "fp32"}),
    ("recomputed", {"distributed__fsdp__activation_checkpointing": "block", "training__optimizer__precision": "bf16_sr"}),
])
def test_runs_of_every_kind_have_the_same_bits(runs, name, changes):
    settings = {**GRAPHS, "training__max_steps": 10, **changes}
    hits, *_ = replayed(runs.run(f"{name}-replayed", **settings))
    runs.run(f"{name}-plain", failpoint=PLAINLY, **settings)
    assert hits > 2
    assert losses_by_step(runs, f"{name}-replayed") == losses_by_step(runs, f"{name}-plain")
    assert state_hash(runs.checkpoint(f"{name}-replayed", 10)) == state_hash(runs.checkpoint(f"{name}-plain", 10))


@pytest.mark.parametrize("strategy, ranks, changes", [
    ("FULL_SHARD", 2, {}),
    ("FULL_SHARD", 3, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1, "distributed__fsdp__no_sync": True}),
    ("SHARD_GRAD_OP", 2, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1, "distributed__fsdp__prefetch__forward": 2}),
    ("NO_SHARD", 2, {"distributed__fsdp__param_dtype": "fp32"}),
    ("HYBRID_SHARD", 4, {"distributed__fsdp__shard_group_size": 2, "distributed__fsdp__activation_checkpointing": "block"}),
    ("FULL_SHARD", 2, {"training__use_lora": True, "training__lora": {"rank": 4, "dropout": 0.2}, "models__policy__dtype": "bf16",
                       "distributed__fsdp__reduce_dtype": "bf16"}),
])
def test_several_ranks_replay_what_is_between_their_collectives(runs, strategy, ranks, changes):
    """A validation in between gathers for itself. Each rank has rows, and so shapes, of its own."""
    settings = {**GRAPHS, "training__max_steps": 10, "training__eval_every_steps": 4, "distributed__fsdp__sharding_strategy": strategy, **changes}
    name = f"{strategy}-{ranks}-{settings['training__use_lora']}"
    hits, *_ = replayed(runs.run(f"{name}-replayed", ranks=ranks, **settings))
    runs.run(f"{name}-plain", ranks=ranks, failpoint=PLAINLY, **settings)
    assert hits > 2
    assert losses_by_step(runs, f"{name}-replayed") == losses_by_step(runs, f"{name}-plain")
    assert state_hash(runs.checkpoint(f"{name}-replayed", 10)) == state_hash(runs.checkpoint(f"{name}-plain", 10))


def test_a_rank_that_cannot_record_goes_along_with_those_that_can(runs):
    """It learns that amid the backward pass: weights are gathered and gradients on their way, all of it in the recording alone."""
    short = {**GRAPHS, "training__max_steps": 8}
    done = runs.run("one-plain", ranks=2, failpoint="step.graph.record:rank=1:nth=12=damage", **short)
    assert (done.stdout + done.stderr).count("the step cannot be recorded and runs plainly: ") == 1
    assert replayed(done)[0] > 2
    runs.run("both-plain", ranks=2, failpoint=PLAINLY, **short)
    assert state_hash(runs.checkpoint("one-plain", 8)) == state_hash(runs.checkpoint("both-plain", 8))


def test_what_cannot_be_recorded_runs_plainly(runs):
    short = {**GRAPHS, "training__max_steps": 6}
    done = runs.run("unrecorded", failpoint="step.graph.record:nth=1=damage", **short)
    text = done.stdout + done.stderr
    assert text.count("runtime.cuda_graphs: the step cannot be recorded and runs plainly: ") == 1
    assert replayed(done)[0] == 0
    runs.run("unrecorded-plain", failpoint=PLAINLY, **short)
    assert state_hash(runs.checkpoint("unrecorded", 6)) == state_hash(runs.checkpoint("unrecorded-plain", 6))


@pytest.mark.parametrize("fact, ranks, changes", [
    ("on a CPU, but graphs are of GPUs only", 1, {"runtime__device": "cpu"}),
    ("with gradients that 2 ranks sum in bf16 under NO_SHARD, but", 2,
     {"distributed__fsdp__sharding_strategy": "NO_SHARD", "distributed__fsdp__reduce_dtype": "bf16"}),
    ("in stage rho1, but only steps of baseline", 1, {"experiment__stage": "rho1", "models__reference__path": "micro"}),
    ("with cpu_offload, but", 1, {"distributed__fsdp__cpu_offload": True}),
    ("with fp16, but its loss scale", 1, {"distributed__fsdp__param_dtype": "fp16"}),
    ("with frozen weights in fp32 and compute in bf16, but", 1, {"training__use_lora": True}),
    ("with float8, but", 1, {"training__float8": "tensorwise", "distributed__fsdp__param_dtype": "bf16"}),
])
def test_what_no_graph_can_hold_is_refused(runs, fact, ranks, changes):
    settings = {**GRAPHS, "models__policy__params": {"dim": 64, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "head_dim": 32, "ffn_dim": 128}}
    done = runs.run("refused", code=78, ranks=ranks, **{**settings, **changes})
    assert f"runtime.cuda_graphs: on {fact}" in (error_of(done) if ranks == 1 else done.stdout + done.stderr)


def test_the_benchmark_says_how_many_steps_were_replayed(runs):
    flags = ["--device", "cuda", "--preset", "micro", "--batch", 2, "--seq", 64, "--warm", 2, "--steps", 2, "--cuda-graphs"]
    assert runs.wmtp.json("bench", "step", *flags, env={"OMP_NUM_THREADS": "1"})["graph_hits"] == 0.5
