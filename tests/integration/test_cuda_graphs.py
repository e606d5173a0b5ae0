"""Steps of one rank that are replayed as CUDA graphs (graph_runs.py), and what is refused."""
import pytest
from graph_runs import GRAPHS, PLAINLY, assert_replays_are_plain, assert_same_end, emulated_runs, replayed
from tiny_runs import error_of, metrics


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return emulated_runs(wmtp, tmp_path_factory.mktemp("graphs"))


def test_replayed_steps_have_the_bits_of_plain_ones(runs):
    """A step is not replayed where its shapes come for the first or the second time, and the demo's packed rows have few shapes."""
    done = runs.run("replayed", **GRAPHS)
    assert "runtime.cuda_graphs has never run on a GPU" in done.stdout + done.stderr
    hits, steps, shapes, recorded = replayed(done)
    assert (steps, hits) == (30, 30 - shapes - recorded) and shapes <= 5
    shares = [point["perf/graph_hits"] for point in metrics(runs, "replayed") if "perf/graph_hits" in point]
    assert shares[0] == 0 and shares[-1] == pytest.approx(hits / steps, abs=2 / steps)
    plainly = runs.run("plain", failpoint="step.graph:nth=1+=skip", **GRAPHS)
    assert replayed(plainly) == (0, 30, 0, 0)
    assert_same_end(runs, "replayed", "plain", 30)


def test_a_resumed_run_has_the_same_bits(runs):
    short = {**GRAPHS, "training__lr_scheduler": {"type": "constant", "warmup_ratio": 0}, "training__max_steps": 12}
    runs.run("whole", **short)
    runs.run("cut", "--max-steps", "5", **short)
    hits, steps, *_ = replayed(runs.run("cut", **short))
    assert steps == 7 and hits > 0
    assert_same_end(runs, "cut", "whole", 12)


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
    assert_replays_are_plain(runs, name, 10, **{**GRAPHS, **changes})


def test_what_cannot_be_recorded_runs_plainly(runs):
    short = {**GRAPHS, "training__max_steps": 6}
    done = runs.run("unrecorded", failpoint="step.graph.record:nth=1=damage", **short)
    text = done.stdout + done.stderr
    assert text.count("runtime.cuda_graphs: the step cannot be recorded and runs plainly: ") == 1
    assert replayed(done)[0] == 0
    runs.run("unrecorded-plain", failpoint=PLAINLY, **short)
    assert_same_end(runs, "unrecorded", "unrecorded-plain", 6)


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
