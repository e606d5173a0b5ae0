"""What a run of two ranks says of its communication: bytes that follow from the parameters, a share of the step."""
import re

import pytest
from checkpoint_readers import exported
from tiny_runs import TinyRuns, metrics

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "other")
MEANS = {f"comm/{kind}_{unit}" for kind in KINDS for unit in ("mb", "ms")} | {"comm/wait_ms", "comm/wait_share"}
NAMES = MEANS | {f"{name}_max" for name in MEANS}
STEPS = 5


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("figures"), steps=STEPS, every=STEPS, lora=False)


def reported(runs, name, ranks, **options):
    runs.run(name, ranks=ranks, training__log_interval=2, training__eval_every_steps=STEPS, **options)
    points = [point for point in metrics(runs, name) if "train/loss" in point]
    assert [point["step"] for point in points] == [1, 2, 4, STEPS]
    for point in points:
        assert {key for key in point if key.startswith("comm/")} == (NAMES if ranks > 1 else set())
    return points


def padded_megabytes(wmtp, runs, name, multiple):
    """Of all parameters in fp32: each block, each head and the rest is a unit of its own, rounded up."""
    units = {}
    whole = exported(wmtp, runs.checkpoint(name, STEPS), runs.folder / f"{name}-hf", "--keep-mtp")
    for tensor_name, tensor in whole.items():
        unit = re.match(r"model\.(layers|extra_heads)\.\d+\.", tensor_name)
        units[unit and unit[0]] = units.get(unit and unit[0], 0) + tensor.numel()
    return sum(-(-numel // multiple) * multiple for numel in units.values()) * 4 / 1e6


def test_two_ranks_move_what_the_parameters_say(wmtp, runs):
    once = {"ranks": 2, "training__gradient_accumulation_steps": 1}
    sharded = reported(runs, "sharded", **once, distributed__fsdp__sharding_strategy="SHARD_GRAD_OP")
    whole = padded_megabytes(wmtp, runs, "sharded", 2 * 128)
    first, *others = [point["comm/all_gather_mb"] for point in sharded]
    assert others == pytest.approx([whole] * len(others), rel=1e-12)
    assert whole < first < 2 * whole  # its own, and behind its update the first ones of the second step
    for point in sharded:
        assert point["comm/reduce_scatter_mb"] == pytest.approx(whole, rel=1e-12)
        assert 0 < point["comm/all_reduce_mb"] < 0.01  # losses and norms
        assert point["comm/broadcast_mb"] == point["comm/other_mb"] == point["comm/other_ms"] == 0
        assert 0 < point["comm/wait_share"] <= point["comm/wait_share_max"] < 1
        assert 0 < point["comm/wait_ms"] < point["perf/step_time_ms"]
    replicas = reported(runs, "replicas", **once, distributed__fsdp__sharding_strategy="NO_SHARD")
    for point, other in zip(replicas, sharded, strict=True):
        assert point["comm/all_gather_mb"] == point["comm/reduce_scatter_mb"] == 0
        gradients = point["comm/all_reduce_mb"] - other["comm/all_reduce_mb"]
        assert gradients == pytest.approx(padded_megabytes(wmtp, runs, "replicas", 128), rel=1e-9)


def test_a_run_of_several_ranks_has_the_curve_and_one_process_tells_nothing(wmtp, runs):
    reported(runs, "alone", ranks=1)
    reported(runs, "pair", ranks=2)
    page = runs.folder / "report.html"
    for name, has_curve in (("alone", False), ("pair", True)):
        wmtp.run("report", runs.folder / name, "--out", page)
        assert (f"Waited for communication of {name}" in page.read_text()) == has_curve
