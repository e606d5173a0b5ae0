"""The client of MLflow's REST interface and servers that fail, lie, or are none of MLflow; and where its credentials go."""
import json
import sys
from pathlib import Path

import pytest
from mlflow_probe import mlflow_probes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

TOKEN, USER, PASSWORD = "canary-token-5b1", "canary-user-7c2", "canary-word-9d3"
BASIC = "Y2FuYXJ5LXVzZXItN2MyOmNhbmFyeS13b3JkLTlkMw=="
WITH_TOKEN = {"MLFLOW_TRACKING_TOKEN": TOKEN}
WITH_PASSWORD = {"MLFLOW_TRACKING_USERNAME": USER, "MLFLOW_TRACKING_PASSWORD": PASSWORD}
ARTIFACTS = "mlflow-artifacts:/1/r1/artifacts"
PAGE = "<!doctype html><title>Sign in</title>"
TLS = {"self_signed": "not from an authority", "expired": "has expired", "wrong_name": "is for another host"}
INVALID_HOST = "Invalid Host header - possible DNS rebinding attack detected"
# action, what comes of it: kind, parts of the text
CASES = {
    "401": ({"status": 401, "body": "who are you?"}, "config", ["answered with 401: who are you?", "MLFLOW_TRACKING_"]),
    "403": ({"status": 403, "json": {"error_code": "PERMISSION_DENIED", "message": "no"}}, "config",
            ["403 PERMISSION_DENIED: no", "may not do this"]),
    "host": ({"status": 403, "body": INVALID_HOST}, "config", [INVALID_HOST, "--allowed-hosts 127.0.0.1:"]),
    "other service": ({"status": 404, "body": PAGE}, "config", ["answered with 404 and a page for browsers", "its path included?"]),
    "500": ({"status": 500, "body": "<html>Internal"}, "comm", ["answered with 500 and a page for browsers"]),
    "503": ({"status": 503, "retry_after": 7, "body": "busy"}, "comm", ["answered with 503: busy"]),
    "429": ({"status": 429, "body": ""}, "comm", ["answered with 429"]),
    "408": ({"status": 408, "body": ""}, "comm", ["answered with 408"]),
    "portal": ({"body": PAGE}, "data", ["the answer cannot be read", "is this an MLflow server"]),
    "garbage": ({"body_base64": "AP8b"}, "data", ["the answer cannot be read: JSON: byte 0 is NUL"]),
    "cut JSON": ({"body": '{"experiment": {"experiment_id": "1", "na'}, "data", ["the answer cannot be read: JSON: parse error"]),
    "no field": ({"json": {"experiment": {}}}, "data", ['"experiment.experiment_id" is missing from the answer']),
    "deep": ({"body": '{"a":' * 17 + "1" + "}" * 17}, "data", ["nested deeper than 16"]),
    "huge": ({"body_bytes": (16 << 20) + 1}, "data", ["a body of more than 16777216 bytes"]),
    "cut": ({"body_bytes": 100, "cut": {"at": "body:10"}}, "comm", ["inside the answer's body"]),
    "redirect": ({"redirect": "${url_other}/login?next=secret", "status": 302}, "config",
                 ["answered with 302, which points to http://127.0.0.1:", "/login; redirects are"]),
    "relative redirect": ({"status": 308, "headers": {"Location": "/login?next=secret"}}, "config", ["points to /login; redirects are"]),
    "odd redirect": ({"status": 301, "headers": {"Location": "//evil\\\\x"}}, "config", ["points to a place that is no http(s) URL"]),
    "escapes": ({"status": 400, "json": {"error_code": "BAD_REQUEST", "message": "\x1b[2J\u202e\r\nnew"}}, "config",
                ["400 BAD_REQUEST: \\u001b[2J\\u202e\\u000d\\nnew"]),
    "echo": ({"status": 401, "body": "you are ${header_authorization}"}, "config", ["you are "]),
}


def slug(name):
    return "/" + name.replace(" ", "-")


@pytest.fixture(scope="module")
def start_probe(wmtp):
    with mlflow_probes(wmtp) as start:
        yield start


@pytest.fixture(scope="module")
def server():
    rules = [{"name": name, "path": f"^{slug(name)}/api/2.0/mlflow/", "action": action} for name, (action, _, _) in CASES.items()]
    listeners = {"plain": "plain", "other": "plain", "good": "good", **{kind: kind for kind in TLS}}
    with FaultyServer(rules=rules, default={"json": {"experiment": {"experiment_id": "5"}}}, listeners=listeners) as made:
        yield made


@pytest.mark.parametrize("env", [WITH_TOKEN, WITH_PASSWORD], ids=["token", "password"])
def test_each_fault_has_its_kind_and_shows_no_secret(start_probe, server, env):
    probe = start_probe(env)
    first = len(server.requests)
    for name, (_, kind, parts) in CASES.items():
        probe.connect(server.url + slug(name))
        got = probe.call("experiment", name="e")
        assert got.kind == kind and all(part in got.text for part in parts), (name, got.text)
        assert f"GET {server.url}{slug(name)}/api/2.0/mlflow/experiments/get-by-name" in got.text, "the call is named"
        assert (got.unavailable is not None) == name.isdigit() * (kind == "comm"), name
        assert got.retry_after == (7 if name == "503" else None)
        assert "secret" not in got.text and not any(ord(c) < 32 for c in got.text)
    assert server.acted["echo"] > 0
    sent = server.requests[first:]
    assert len(sent) == len(CASES), "one try each, and no redirect was followed"
    text = probe.close()
    for canary in (TOKEN, USER, PASSWORD, BASIC):
        assert canary not in text
        for request in sent:
            others = [value for key, value in request.headers if key != "Authorization"]
            assert canary not in request.target + str(others) + request.body.decode()
    assert {request.header("Authorization") for request in sent} == {f"Bearer {TOKEN}" if env is WITH_TOKEN else f"Basic {BASIC}"}


@pytest.mark.parametrize("kind", TLS)
def test_bad_certificates_are_refused_and_can_be_allowed_aloud(start_probe, server, kind):
    before = len(server.requests)
    careful = start_probe({**WITH_TOKEN, "MLFLOW_TRACKING_SERVER_CERT_PATH": server.ca_file})
    careful.connect(server.urls[kind])
    got = careful.call("experiment", name="e")
    assert got.kind == "config" and TLS[kind] in got.text and len(server.requests) == before
    careful.connect(server.urls["good"])
    assert careful.must("experiment", name="e") == "5" and "not checked" not in careful.close()
    careless = start_probe({**WITH_TOKEN, "MLFLOW_TRACKING_INSECURE_TLS": "true"})
    careless.connect(server.urls[kind])
    assert careless.must("experiment", name="e") == "5"
    text = careless.close()
    assert "is not checked (MLFLOW_TRACKING_INSECURE_TLS)" in text and TOKEN not in text


def test_settings_that_make_no_sense_are_named(start_probe, server):
    for env, uri, part in (({}, "databricks://x", "names Databricks"), ({}, "sqlite:///x", "names an SQLite database"),
                           ({}, f"http://{USER}:{PASSWORD}@127.0.0.1:1", "has a user name or password"),
                           ({"MLFLOW_TRACKING_USERNAME": USER}, server.url, "MLFLOW_TRACKING_PASSWORD is not"),
                           ({"MLFLOW_TRACKING_INSECURE_TLS": "perhaps"}, server.url, "none of true, false, 1, 0"),
                           ({"MLFLOW_TRACKING_SERVER_CERT_PATH": "/no/file"}, server.url, "names /no/file, which is no file")):
        probe = start_probe(env)
        got = probe.connect(uri)
        assert got.kind == "config" and part in got.text, got.text
        text = probe.close()
        assert USER not in text and PASSWORD not in text
    probe = start_probe(WITH_TOKEN)
    probe.connect("http://mlflow.invalid")
    got = probe.call("experiment", name="e")
    assert got.kind == "config" and "would go over the network unencrypted" in got.text
    probe.connect("http://127.0.0.1:9")
    assert probe.call("experiment", name="e").kind == "comm"


def test_a_run_with_another_tag_is_none_that_was_found(start_probe):
    run = {"info": {"run_id": "r1", "experiment_id": "1", "artifact_uri": ARTIFACTS}, "data": {"tags": [{"key": "wmtp.run", "value": "b"}]}}
    with FaultyServer(default={"json": {"runs": [run]}}) as server:
        probe = start_probe()
        probe.connect(server.url)
        assert probe.must("find_run", experiment_id="1", key="wmtp.run", value="b")["run_id"] == "r1"
        got = probe.call("find_run", experiment_id="1", key="wmtp.run", value="a")
        assert got.kind == "data" and "a run was found that lacks the tag" in got.text
        quoted = probe.call("find_run", experiment_id="1", key="wmtp.run", value="a' OR 'b")
        assert quoted.kind == "internal" and len(server.requests) == 2, "a filter is not to be written by others"


def upload(start_probe, server, tmp_path, **job):
    (tmp_path / "file").write_bytes(bytes(range(256)) * 10)
    probe = start_probe(WITH_TOKEN)
    probe.connect(server.url + "/pre")
    call = {"artifact_uri": ARTIFACTS, "name": "deep/m.bin", "file": str(tmp_path / "file"), "part_bytes": 1000, **job}
    got = probe.call("upload_in_parts", **call)
    return got, [(one.method, one.path) for one in server.requests], probe.close()


MPU = "/pre/api/2.0/mlflow-artifacts/mpu"
PUT = ("PUT", "/pre/api/2.0/mlflow-artifacts/artifacts/1/r1/artifacts/deep/m.bin")


def serve_parts(count=3, nth="1+", create=None, store=None):
    """A store that takes parts, unless it is told to act otherwise."""
    parts = [{"url": "${url_other}/store/%d?sign=secret" % n, "part_number": n, "headers": {"x-amz-meta": "m"}} for n in range(1, count + 1)]
    rules = [{"path": "/create/", "action": create or {"json": {"upload_id": "u1", "credentials": parts}}},
             {"path": "/store/", "nth": nth, "action": store or {"headers": {"ETag": '"tag-${path}"'}}},
             {"path": "/mpu/", "action": {"json": {}}}]
    return FaultyServer(rules=rules, default={"body": ""}, listeners={"plain": "plain", "other": "plain"})


def test_large_files_go_in_parts_without_our_credentials(start_probe, tmp_path):
    with serve_parts() as server:
        got, seen, text = upload(start_probe, server, tmp_path)
        assert got.kind is None, got.text
        assert seen == [("POST", f"{MPU}/create/1/r1/artifacts/deep"), ("PUT", "/store/1"), ("PUT", "/store/2"), ("PUT", "/store/3"),
                        ("POST", f"{MPU}/complete/1/r1/artifacts/deep")]
        create, *parts, complete = server.requests
        assert json.loads(create.body) == {"num_parts": 3, "path": "m.bin"}
        assert b"".join(bytes(one.body) for one in parts) == bytes(range(256)) * 10 and [len(one.body) for one in parts] == [1000, 1000, 560]
        assert all(one.header("Authorization") is None and one.header("x-amz-meta") == "m" for one in parts)
        second = {"part_number": 2, "etag": '"tag-/store/2"', "url": f"{server.urls['other']}/store/2?sign=secret"}
        assert json.loads(complete.body)["parts"][1] == second
        assert json.loads(complete.body)["upload_id"] == "u1" and "secret" not in text


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_a_server_without_parts_gets_the_file_in_one_piece(start_probe, tmp_path, status):
    with serve_parts(create={"status": status, "body": "no"}) as server:
        got, seen, _ = upload(start_probe, server, tmp_path)
        assert got.kind is None and seen[1:] == [PUT]
        assert server.requests[1].body == bytes(range(256)) * 10 and server.requests[1].header("Content-Type") == "application/octet-stream"


def test_a_part_that_fails_ends_in_an_abort(start_probe, tmp_path):
    with serve_parts(nth="2", store={"status": 503, "body": "slow down"}) as server:
        got, seen, text = upload(start_probe, server, tmp_path)
        assert got.unavailable == 503 and seen[-1] == ("POST", f"{MPU}/abort/1/r1/artifacts/deep") and "secret" not in text
    with serve_parts(count=2) as server:
        got, seen, _ = upload(start_probe, server, tmp_path)
        assert got.kind == "data" and "3 parts were asked for and 2 answered" in got.text and seen[-1][1].startswith(f"{MPU}/abort")
    with serve_parts(create={"status": 500, "body": ""}) as server:
        got, seen, _ = upload(start_probe, server, tmp_path)
        assert got.unavailable == 500 and len(seen) == 1, "nothing was begun"


def test_stores_that_the_server_does_not_serve_are_refused(start_probe, server, tmp_path):
    before = len(server.requests)
    for uri, text in (("s3://bucket/1", 'the scheme "s3"'), ("/mnt/mlruns/1", 'the scheme "file"'),
                      ("mlflow-artifacts://evil/1", "go to the server evil")):
        got, _, _ = upload(start_probe, server, tmp_path, artifact_uri=uri)
        assert got.refused == 0 and not got.about_content and text in got.text
    got, _, _ = upload(start_probe, server, tmp_path, artifact_uri="mlflow-artifacts:/1/%2e%2e/x")
    assert got.kind == "data" and len(server.requests) == before
    with FaultyServer(default={"body": PAGE}) as portal:
        got, _, _ = upload(start_probe, portal, tmp_path)
        assert got.kind == "data", "a page to log in is no success"


def doctor(wmtp, tmp_path, **env):
    """The lines of `wmtp doctor --mlflow` about the server, and its exit code."""
    done = wmtp.run("--json", "doctor", "--mlflow", "--storage", tmp_path, check=False, env=env)
    checks = [json.loads(line) for line in done.stdout.splitlines()][0]["checks"]
    first = [check["name"] for check in checks].index("MLflow")
    assert TOKEN not in done.stdout + done.stderr
    return {check["name"]: check for check in checks[first:]}, done.returncode


def test_doctor_names_what_is_in_the_way(wmtp, server, tmp_path):
    checks, code = doctor(wmtp, tmp_path, MLFLOW_TRACKING_URI="")
    assert code == 78 and list(checks) == ["MLflow"] and "MLFLOW_TRACKING_URI" in checks["MLflow"]["fix"]
    checks, code = doctor(wmtp, tmp_path, MLFLOW_TRACKING_URI="http://127.0.0.1:9")
    assert code == 78 and checks["reachable"]["status"] == "FAIL" and checks["TLS"]["status"] == "OK" and checks["reachable"]["fix"]
    checks, code = doctor(wmtp, tmp_path, MLFLOW_TRACKING_URI=server.urls["expired"], MLFLOW_TRACKING_SERVER_CERT_PATH=server.ca_file)
    assert code == 78 and checks["TLS"]["status"] == "FAIL" and "has expired" in checks["TLS"]["fact"] and "reachable" not in checks
    checks, code = doctor(wmtp, tmp_path, MLFLOW_TRACKING_URI=server.url + slug("401"), **WITH_TOKEN)
    assert code == 78 and checks["credentials"]["status"] == "FAIL" and "not accepted" in checks["credentials"]["fix"]
    assert checks["version"]["status"] == "WARN"
    rules = [{"path": "/version", "action": {"body": "3.1.0", "date_skew_s": -7200}}]
    experiment = {"experiment_id": "0", "artifact_location": "gs://bucket/0"}
    with FaultyServer(rules=rules, default={"json": {"experiment": experiment}}, listeners={"plain": "plain", "self_signed": "self_signed"}) as other:
        checks, code = doctor(wmtp, tmp_path, MLFLOW_TRACKING_URI=other.urls["self_signed"], MLFLOW_TRACKING_INSECURE_TLS="1", **WITH_TOKEN)
        assert code == 0 and {name: check["status"] for name, check in checks.items()} == {
            "MLflow": "OK", "libcurl": "OK", "TLS": "WARN", "reachable": "OK", "server clock": "WARN", "version": "OK", "credentials": "OK",
            "experiment": "OK", "artifacts": "WARN"}
        assert "7200 s behind" in checks["server clock"]["fact"] and '"gs"' in checks["artifacts"]["fact"]
        assert checks["credentials"]["fact"] == "accepted"
        assert {one.method for one in other.requests} == {"GET"}, "nothing is changed there"
