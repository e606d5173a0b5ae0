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


@pytest.fixture(scope="module")
def critic(runs):
    """The checkpoint of a critic: a value model, or what a head of the policy's own begins with."""
    runs.run("critic", experiment__stage="critic", training__value_loss={"type": "mse", "bias_init": 0.5}, training__max_steps=6,
             training__backbone_frozen=False, checkpoint__save_every_steps=6, training__use_lora=False)
    return str(runs.checkpoint("critic", 6))


WEIGHED = {"experiment__stage": "verifiable", "training__value": {"source": "model"}, "models__value_model__checkpoint_path": "critic"}
RHO1 = {"experiment__stage": "rho1", "models__reference__path": "critic"}


def of_stage(changes, critic):
    return {**GRAPHS, "training__max_steps": 14, **{key: critic if value == "critic" and "path" in key else value for key, value in changes.items()}}


@pytest.mark.parametrize("name, changes", [
    ("critic-pairs", {"experiment__stage": "critic", "training__backbone_frozen": False, "data_sampling__use_pairwise": True,
                      "training__value_loss": {"type": "pairwise_ranking"}}),
    ("critic-lambda", {"experiment__stage": "critic", "models__policy__dtype": "bf16",
                       "training__value_loss": {"type": "lambda_return", "lambda_schedule": {"warmup_steps": 2, "decay_steps": 8}}}),
    ("joint", {"experiment__stage": "verifiable", "training__value": {"source": "joint"}, "training__value_head": {"dropout": 0.1}}),
    ("model", WEIGHED),
    ("uncached", {**WEIGHED, "training__signal_cache": False, "training__loss_normalization": "weights"}),
    ("in-nf4", {**WEIGHED, "training__signal_cache": False, "models__value_model__quantize": "nf4"}),
    ("random", {**WEIGHED, "training__td": {"control": "random"}}),
    ("rho1", RHO1),
])
def test_steps_of_every_stage_have_the_same_bits(runs, critic, name, changes):
    """Signals of a frozen model are the run's own in the first epoch, and the cache's then."""
    settings = of_stage(changes, critic)
    hits, steps, *_ = replayed(runs.run(f"{name}-replayed", runtime__cache_dir=f"{runs.folder}/{name}-replayed-cache", **settings))
    runs.run(f"{name}-plain", failpoint=PLAINLY, runtime__cache_dir=f"{runs.folder}/{name}-plain-cache", **settings)
    assert steps == 14 and hits > 2
    losses = losses_by_step(runs, f"{name}-replayed")
    assert len(losses) == 14 and losses == losses_by_step(runs, f"{name}-plain")
    assert state_hash(runs.checkpoint(f"{name}-replayed", 14)) == state_hash(runs.checkpoint(f"{name}-plain", 14))


@pytest.mark.parametrize("name, changes", [
    ("critic", {"experiment__stage": "critic", "training__backbone_frozen": False, "data_sampling__use_pairwise": True,
                "training__value_loss": {"type": "pairwise_ranking"}}),
    ("verifiable", {**WEIGHED, "training__loss_normalization": "weights", "training__td": {"whiten": "batch", "scope": "ranks"}}),
    ("rho1", {**RHO1, "distributed__fsdp__sharding_strategy": "SHARD_GRAD_OP"}),
])
def test_several_ranks_of_every_stage_have_the_same_bits(runs, critic, name, changes):
    """Weights that follow from sums over ranks: those collectives too are between the pieces."""
    settings = of_stage(changes, critic)
    hits, *_ = replayed(runs.run(f"two-{name}-replayed", ranks=2, **settings))
    runs.run(f"two-{name}-plain", ranks=2, failpoint=PLAINLY, **settings)
    assert hits > 2
    assert losses_by_step(runs, f"two-{name}-replayed") == losses_by_step(runs, f"two-{name}-plain")
    assert state_hash(runs.checkpoint(f"two-{name}-replayed", 14)) == state_hash(runs.checkpoint(f"two-{name}-plain", 14))


def test_a_resumed_run_whitens_with_the_same_tracker(runs, critic):
    settings = of_stage({**WEIGHED, "training__td": {"mode": "gae", "whiten": "ema"},
                         "training__lr_scheduler": {"type": "constant", "warmup_ratio": 0}}, critic)
    runs.run("ema-whole", **settings)
    runs.run("ema-cut", "--max-steps", "6", **settings)
    hits, steps, *_ = replayed(runs.run("ema-cut", **settings))
    assert steps == 8 and hits > 0
    assert losses_by_step(runs, "ema-cut") == losses_by_step(runs, "ema-whole")
    assert state_hash(runs.checkpoint("ema-cut", 14)) == state_hash(runs.checkpoint("ema-whole", 14))


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
    ("with rows that are selected over 2 ranks, but", 2,
     {"experiment__stage": "rho1", "models__reference__path": "micro", "training__rho1": {"scope": "ranks"}}),
    ("with frozen weights in fp32 and compute in bf16, but", 1, {"experiment__stage": "critic"}),
    ("with cpu_offload, but", 1, {"distributed__fsdp__cpu_offload": True}),
    ("with fp16, but its loss scale", 1, {"distributed__fsdp__param_dtype": "fp16"}),
    ("with frozen weights in fp32 and compute in bf16, but", 1, {"training__use_lora": True}),
    ("with float8, but", 1, {"training__float8": "tensorwise", "distributed__fsdp__param_dtype": "bf16"}),
])
def test_what_no_graph_can_hold_is_refused(runs, fact, ranks, changes):
    settings = {**GRAPHS, "models__policy__params": {"dim": 64, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "head_dim": 32, "ffn_dim": 128}}
    done = runs.run("refused", code=78, ranks=ranks, **{**settings, **changes})
    assert f"runtime.cuda_graphs: on {fact}" in (error_of(done) if ranks == 1 else done.stdout + done.stderr)


@pytest.mark.parametrize("stage", [[], ["--stage", "critic"], ["--stage", "verifiable", "--signals", "joint"],
                                   ["--stage", "rho1", "--signals", "model"]], ids=lambda words: "-".join(words[1:2]))
def test_the_benchmark_says_how_many_steps_were_replayed(runs, stage):
    flags = ["--device", "cuda", "--preset", "micro", "--batch", 2, "--seq", 64, "--warm", 2, "--steps", 2, "--cuda-graphs", *stage]
    assert runs.wmtp.json("bench", "step", *flags, env={"OMP_NUM_THREADS": "1"})["graph_hits"] == 0.5
