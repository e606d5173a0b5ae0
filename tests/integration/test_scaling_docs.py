"""The tables of docs/scaling.md are what the program predicts."""
from pathlib import Path

import pytest

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
