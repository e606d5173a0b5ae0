"""The client of MLflow's REST interface and a real server: MLflow's own client reads back what was sent."""
import math
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow_probe import mlflow_probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

NOW = 1_700_000_000_000
LARGEST = sys.float_info.max


@pytest.fixture(scope="module")
def real(mlflow):
    return SimpleNamespace(uri=mlflow.uri, client=mlflow.client())


@pytest.fixture(scope="module")
def start_probe(wmtp):
    with mlflow_probes(wmtp) as start:
        yield start


@pytest.fixture(scope="module")
def probe(start_probe, real):
    made = start_probe()
    made.connect(real.uri)
    return made


@pytest.fixture
def run(probe):
    experiment = probe.must("experiment", name="facts")
    return probe.must("create_run", experiment_id=experiment, name="a run", start_ms=NOW, tags=[["wmtp.run", "r-1"]])


def metric(key, value, step=0, timestamp=NOW):
    return {"key": key, "value": value, "step": step, "timestamp": timestamp}


def history(real, run, key):
    return [(one.value, one.step, one.timestamp) for one in real.client.get_metric_history(run["run_id"], key)]


def bits(value):
    return struct.pack("<d", value)


def test_everything_that_is_logged_comes_back_equal(probe, real, run, tmp_path):
    values = {"third": 1 / 3, "minus_zero": -0.0, "denormal": 5e-324, "small": -2.2250738585072014e-308, "large": 1e300,
              "largest": LARGEST, "integer": float(2**53 + 2), "nan": math.nan}
    texts = {"p/long": "\U0001f600" * 6000, "p.quote": "a \"b\" 'c' \\ \n\t\u202e \x1b", "p:empty": "", "p korean": "한글"}
    sent = [metric(key, "NaN" if math.isnan(value) else value) for key, value in values.items()]
    steps = [metric("steps", step / 8, step, NOW + step % 1000) for step in (0, 1, 2**53, 2**53 + 1, 2**62)]
    probe.must("log_batch", run_id=run["run_id"], metrics=sent + steps, params=list(texts.items()),
               tags=[["t", "\U0001f600" * 8000], ["mlflow.source.name", "wmtp"]])
    probe.must("set_tag", run_id=run["run_id"], key="later", value="ü")
    got = real.client.get_run(run["run_id"])
    assert got.data.params == texts
    assert {key: got.data.tags[key] for key in ("t", "later", "wmtp.run", "mlflow.runName", "mlflow.source.name")} == {
        "t": "\U0001f600" * 8000, "later": "ü", "wmtp.run": "r-1", "mlflow.runName": "a run", "mlflow.source.name": "wmtp"}
    for key, value in values.items():
        [(back, step, timestamp)] = history(real, run, key)
        assert (step, timestamp) == (0, NOW)
        # -0.0 goes out with its sign (tests/tracking); the database keeps what it keeps.
        assert back == value if value == 0 else bits(back) == bits(value) or (math.isnan(back) and math.isnan(value)), key
    assert sorted(history(real, run, "steps")) == [(one["value"], one["step"], one["timestamp"]) for one in steps]
    seen = probe.must("get_run", run_id=run["run_id"])
    assert seen["params"] == texts and seen["tags"]["later"] == "ü"
    assert seen["last_steps"] == {**dict.fromkeys(values, 0), "steps": 2**62}
    assert (got.info.run_name, got.info.start_time, got.info.status) == ("a run", NOW, "RUNNING")


def test_infinities_become_the_largest_numbers_there(probe, real, run):
    probe.must("log_batch", run_id=run["run_id"], metrics=[metric("up", "Infinity"), metric("down", "-Infinity")])
    assert [history(real, run, key)[0][0] for key in ("up", "down")] == [LARGEST, -LARGEST]


def test_exact_repeats_are_dropped_and_all_else_is_kept(probe, real, run):
    """What a replay of the spool stands on."""
    first = [metric("loss", 0.5, 7), metric("loss", "NaN", 8), metric("loss", 0.25, 9)]
    others = [metric("loss", 0.75, 7), metric("loss", 0.5, 7, NOW + 1)]
    for batch in (first, first, first[1:] + others, first):
        probe.must("log_batch", run_id=run["run_id"], metrics=batch, params=[["p", "1"]], tags=[["t", "x"]])
    got = history(real, run, "loss")
    assert len(got) == 5 and sorted(one for one in got if one[1] == 7) == [(0.5, 7, NOW), (0.5, 7, NOW + 1), (0.75, 7, NOW)]
    refused = probe.call("log_batch", run_id=run["run_id"], params=[["p", "2"]])
    assert (refused.refused, refused.error_code, refused.about_content) == (400, "INVALID_PARAMETER_VALUE", True)
    assert "old_value" in refused.text and refused.kind == "config"


def test_statuses_inputs_and_artifacts(probe, real, run, tmp_path):
    for status, name in (("failed", "FAILED"), ("killed", "KILLED"), ("running", "RUNNING"), ("finished", "FINISHED")):
        end = {} if status == "running" else {"end_ms": NOW + 5}
        probe.must("update_run", run_id=run["run_id"], status=status, **end)
        assert real.client.get_run(run["run_id"]).info.status == name
    assert real.client.get_run(run["run_id"]).info.end_time == NOW + 5
    dataset = {"name": "train.jsonl", "digest": "0123abcd", "source_type": "local", "source": "{\"path\": \"x\"}"}
    tags = [{"key": "mlflow.data.context", "value": "training"}]
    probe.must("log_inputs", run_id=run["run_id"], inputs={"datasets": [{"dataset": dataset, "tags": tags}]})
    [got] = real.client.get_run(run["run_id"]).inputs.dataset_inputs
    assert (got.dataset.name, got.dataset.digest, got.tags[0].value) == ("train.jsonl", "0123abcd", "training")
    files = {"config.yaml": b"a: 1\n", "deep/er/model.bin": os.urandom(3_000_000), "empty.json": b"", "odd/n ame %41+é.txt": b"x"}
    for name, content in files.items():
        (tmp_path / "file").write_bytes(content)
        probe.must("upload", artifact_uri=run["artifact_uri"], name=name, file=str(tmp_path / "file"))
        assert Path(real.client.download_artifacts(run["run_id"], name, str(tmp_path))).read_bytes() == content
    # A store without multipart uploads answers 501: the file goes in one piece.
    (tmp_path / "file").write_bytes(b"0123456789")
    probe.must("upload_in_parts", artifact_uri=run["artifact_uri"], name="parts/p.bin", file=str(tmp_path / "file"), part_bytes=4)
    assert Path(real.client.download_artifacts(run["run_id"], "parts/p.bin", str(tmp_path))).read_bytes() == b"0123456789"


def test_full_batches_and_fitted_keys_are_taken(probe, real, run):
    metrics = [metric(f"m{i}", 1.0) for i in range(800)]
    pairs = [[f"k{i}", "v"] for i in range(100)]
    probe.must("log_batch", run_id=run["run_id"], metrics=metrics, params=pairs, tags=pairs)
    assert len(real.client.get_run(run["run_id"]).data.metrics) == 800
    keys = ["", ".", "..", "/a", "a//b", "a/../b", "..a", "a,b", "한글", "k" * 300, "k" * 238 + "/..b" + "k" * 20, "a\n"]
    fitted = [probe.must("fit_key", key=key) for key in keys]
    probe.must("log_batch", run_id=run["run_id"], metrics=[metric(key, 2.0) for key in fitted], params=[[key, "v"] for key in fitted],
               tags=[[key, "v"] for key in fitted])
    assert set(fitted) <= set(real.client.get_run(run["run_id"]).data.metrics) and len(set(fitted)) == len(keys)
    refused = probe.call("log_batch", run_id=run["run_id"], metrics=[metric("a//b", 1.0)])
    assert refused.error_code == "INVALID_PARAMETER_VALUE", "the control: unfitted, it is refused"


def test_runs_are_found_by_their_tag(probe, real, run):
    experiment = probe.must("experiment", name="search")
    assert probe.must("find_run", experiment_id=experiment, key="wmtp.run", value="r-1") is None
    made = probe.must("create_run", experiment_id=experiment, name="n", start_ms=NOW, tags=[["wmtp.run", "r-1"]])
    probe.must("create_run", experiment_id=experiment, name="n", start_ms=NOW + 1, tags=[["wmtp.run", "r-2"]])
    assert probe.must("find_run", experiment_id=experiment, key="wmtp.run", value="r-1")["run_id"] == made["run_id"]
    real.client.delete_run(made["run_id"])
    assert probe.must("get_run", run_id=made["run_id"])["is_deleted"] and not run["is_deleted"]
    assert probe.must("find_run", experiment_id=experiment, key="wmtp.run", value="r-1") is None
    refused = probe.call("log_batch", run_id=made["run_id"], metrics=[metric("a", 1.0)])
    assert (refused.refused, refused.error_code) == (400, "INVALID_PARAMETER_VALUE") and "active" in refused.text
    gone = probe.call("get_run", run_id="0" * 32)
    assert (gone.refused, gone.error_code, gone.about_content) == (404, "RESOURCE_DOES_NOT_EXIST", False)


def test_a_deleted_experiment_is_refused_with_a_way_out(probe, real):
    name = "one / \"two\" & ü"
    experiment = probe.must("experiment", name=name)
    assert probe.must("experiment", name=name) == experiment
    assert real.client.get_experiment(experiment).name == name
    real.client.delete_experiment(experiment)
    refused = probe.call("experiment", name=name)
    assert refused.refused == 404 and f"mlflow experiments restore -x {experiment}" in refused.text
    real.client.restore_experiment(experiment)
    assert probe.must("experiment", name=name) == experiment


def test_an_experiment_that_someone_else_makes_meanwhile_is_used(start_probe, real):
    taken = real.client.create_experiment("raced")
    missing = {"status": 404, "json": {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}}
    with FaultyServer(rules=[{"name": "late", "path": "get-by-name", "nth": 1, "action": missing}], default={"handler": "real"},
                      handlers={"real": {"type": "proxy", "upstream": real.uri}}) as server:
        probe = start_probe()
        probe.connect(server.url)
        assert probe.must("experiment", name="raced") == taken
        assert [one.path.rsplit("/", 1)[1] for one in server.requests] == ["get-by-name", "create", "get-by-name"]


def test_doctor_sees_the_way_to_a_server_and_leaves_nothing_there(wmtp, real, tmp_path):
    def known():
        return sorted((one.name, one.last_update_time) for one in real.client.search_experiments())
    before = known()
    result = wmtp.json("doctor", "--mlflow", "--storage", tmp_path, env={"MLFLOW_TRACKING_URI": real.uri})
    checks = {check["name"]: check for check in result["checks"]}
    names = ["MLflow", "libcurl", "TLS", "reachable", "server clock", "version", "credentials", "experiment", "artifacts"]
    assert [name for name in checks if name in names] == names
    assert {checks[name]["status"] for name in names} == {"OK"}, checks
    assert checks["version"]["fact"].startswith("3.") and checks["artifacts"]["fact"] == "through the server"
    assert known() == before
