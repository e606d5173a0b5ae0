"""What `wmtp bench scaling` tells, what bench/bench_scaling.py makes of it, and that docs/scaling.md has what it predicts."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import bench_scaling

PAGE = Path(__file__).resolve().parents[2] / "docs/scaling.md"
BEGIN, END = "<!-- wmtp bench scaling --predict -->\n", "<!-- end of the tables -->\n"


@pytest.fixture(scope="module")
def tables(wmtp):
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build")
    return wmtp.run("bench", "scaling", "--predict").stdout


def test_the_page_has_the_tables_the_program_prints(tables):
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0] == tables, "put the output of `wmtp bench scaling --predict` there"


def test_more_micro_batches_help_groups_that_cross_once_a_step(wmtp, tables):
    def on_25_gbe(text):
        return text.split("HYBRID_SHARD")[1].split("| 64 |")[1].splitlines()[0].split("|")[-2]

    many = wmtp.run("bench", "scaling", "--predict", "--shape", "0.6B", "--micro-batches", "16").stdout
    assert "6.7B" in tables and "6.7B" not in many

    def percent(cell):
        return float(cell.split("(")[1].split()[0])

    assert percent(on_25_gbe(many)) > percent(on_25_gbe(tables)) + 10


def test_one_line_sets_predicted_beside_measured(wmtp):
    tiny = ["bench", "scaling", "--units", 3, "--width", 64, "--rows", 32, "--rounds", 2, "--steps", 1]
    result = wmtp.json("launch", "--nproc", 2, "--", *tiny)
    assert result["fitted"] and result["link_mb_s"] > 0 and result["cpu_us_per_mb"] >= 0
    assert result["error"] == pytest.approx(result["predicted_ms"] / result["measured_ms"] - 1)
    assert result["predicted_ms"] > result["compute_ms"] > 0
    alone = wmtp.json(*tiny)
    assert alone["predicted_ms"] == pytest.approx(alone["compute_ms"]) and alone["comm_ms"] == 0
    slow = wmtp.json("launch", "--nproc", 2, "--", *tiny, "--link-mb-s", 1, "--strategy", "NO_SHARD")
    # Four all-reduces of 16 KiB at a megabyte a second: 65.5 ms.
    assert slow["comm_ms"] == pytest.approx(4 * 16.384) and not slow["fitted"]


def test_constants_of_one_rate_are_carried_over_to_others(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    link = bench_scaling.Link({"link_mb_s": 60, "hop_us": 40, "start_us": 100, "cpu_us_per_mb": 1000}, rate=0.5)
    assert link.efficiency == pytest.approx(0.96)
    assert link.options(0.1, 2) == ["--link-mb-s", pytest.approx(12), "--hop-us", 40, "--start-us", 100, "--compute-us-per-mb", 1000]
    four = link.options(8, 4)
    assert four[1] == pytest.approx(500) and four[-1] == 2000, "two ranks on a core: half the bytes, and each twice as dear"
