"""`wmtp doctor --cluster`: all ranks look at the way between them."""
import json

import pytest


def doctor(wmtp, folder, ranks, failpoint=None, code=0):
    done = wmtp.run("--json", "launch", "--nproc", ranks, "--max-restarts", "0", "--", "doctor", "--cluster",
                    "--device", "cpu", "--storage", folder, check=False, env={"WMTP_FAILPOINT": failpoint} if failpoint else {})
    assert done.returncode == code, done.stdout + done.stderr
    (result,) = [line for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "result"]
    return {check["name"]: check for check in result["checks"]}, result["cluster"]


def test_four_ranks_are_measured(wmtp, tmp_path):
    checks, cluster = doctor(wmtp, tmp_path, 4)
    assert checks["cluster"]["status"] == "OK" and checks["cluster"]["fact"].startswith("4 ranks on 1 hosts over gloo")
    for name in ("versions", "machines", "clocks", "GPU health"):
        assert checks[name]["status"] == "OK", checks[name]
    assert "wmtp build" in checks["versions"]["fact"] and checks["GPU health"]["fact"] == "no GPU is in use"
    for name in ("all_reduce", "all_gather"):
        rows = [row for row in cluster["collectives"] if row["collective"] == name]
        assert rows[0]["bytes"] <= 16 and rows[-1]["bytes"] >= 2**20 and len(rows) == len(checks[name]["details"])
        assert all(row["ms"] > 0 and row["gb_per_s"] == pytest.approx(row["bytes"] / row["ms"] / 1e6) for row in rows)
    assert sorted(tuple(pair["ranks"]) for pair in cluster["pairs"]) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    slowest = min(cluster["pairs"], key=lambda pair: pair["gb_per_s"])
    assert checks["slowest pair"]["fact"].startswith("ranks {} (".format(slowest["ranks"][0]))
    assert [clock["rank"] for clock in cluster["clocks"]] == [1, 2, 3]
    assert all(abs(clock["skew_ms"]) <= clock["bound_ms"] + 1 for clock in cluster["clocks"]), "one machine has one clock"
    assert [rank["disk"] is not None for rank in cluster["ranks"]] == [True, False, False, False]


def test_another_version_and_a_skewed_clock_are_named(wmtp, tmp_path):
    checks, cluster = doctor(wmtp, tmp_path, 2, code=78,
                             failpoint="doctor.versions:rank=1=damage;doctor.clock:rank=1=damage")
    assert checks["versions"]["status"] == "FAIL" and checks["versions"]["fact"].startswith("rank 1: wmtp build ")
    assert checks["versions"]["fix"]
    assert checks["clocks"]["status"] == "WARN" and "rank 1 is furthest" in checks["clocks"]["fact"]
    (clock,) = cluster["clocks"]
    assert abs(clock["skew_ms"] - 2500) <= clock["bound_ms"] + 1


def test_one_rank_is_told_to_start_more(wmtp, tmp_path):
    done = wmtp.run("doctor", "--cluster", "--device", "cpu", "--storage", tmp_path)
    assert "WARN cluster" in done.stdout and "wmtp launch --nproc N -- doctor --cluster" in done.stdout
