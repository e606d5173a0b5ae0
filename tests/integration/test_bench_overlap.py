"""What `wmtp bench overlap` tells, and what bench/bench_overlap.py makes of it."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import bench_overlap

GOOD = {"compute_ms": 1000, "gathers_ms": 400, "first_gather_ms": 10, "last_reduction_ms": 20, "prefetch": [0, 1, 2],
        "comm_ms": [990, 980, 970], "step_ms": [1500, 1100, 1090], "waited_gather_ms": [400, 50, 10], "waited_reduce_ms": [5, 5, 5]}


def verdict(**changes):
    return [holds for *_, holds in bench_overlap.judge({**GOOD, **changes})]


def test_the_bounds_are_those_of_the_parts():
    assert verdict() == [True, True, True]
    # 1.1 x 1000 + 30: one step too long.
    assert verdict(step_ms=[1500, 1131, 1129]) == [True, False, True]
    # With more communication than computation it is what counts.
    assert verdict(comm_ms=[2100, 2000, 2000], step_ms=[2500, 2229, 2231]) == [True, True, False]
    # The control hides something: 0.9 x 1400.
    assert verdict(step_ms=[1259, 1100, 1090]) == [False, True, True]
    row = bench_overlap.table_row("FULL_SHARD", 20e6, {**GOOD, "step_ms": [1259, 1100, 1090]})
    assert "1259 (BROKEN 1260)" in row and row.count("|") == bench_overlap.HEADER.splitlines()[0].count("|")


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "NO_SHARD"])
def test_one_line_has_all_parts(wmtp, strategy):
    result = wmtp.json("launch", "--nproc", 2, "--", "bench", "overlap", "--strategy", strategy, "--units", 3, "--width", 48,
                       "--rows", 32, "--rounds", 2, "--prefetch", 0, 1, 2)
    assert set(GOOD) <= set(result)
    assert len(result["comm_ms"]) == len(result["step_ms"]) == 3
    assert (result["waited_gather_ms"][0] > 0) == (strategy == "FULL_SHARD")
    assert min(result["waited_reduce_ms"]) > 0


def test_a_strategy_that_is_unknown_is_refused_by_name(wmtp):
    assert "SOME_SHARD" in wmtp.error("bench", "overlap", "--strategy", "SOME_SHARD", code=78)["message"]
