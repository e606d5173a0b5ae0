"""Secrets: a value that only the environment knows is found in nothing that a run writes, shows or sends."""
import base64
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mlflow_server import without_mlflow
from tiny_runs import TinyRuns, environment

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer, Proxy

# Distinct values in every place where a credential may stand; the last one is a key's `${env:...}`.
CANARIES = {
    "MLFLOW_TRACKING_TOKEN": "canary-token-5d1f",
    "MLFLOW_TRACKING_USERNAME": "canary-user-81b2",
    "MLFLOW_TRACKING_PASSWORD": "canary-password-3c90",
    "AWS_ACCESS_KEY_ID": "CANARYKEYID77A1",
    "AWS_SECRET_ACCESS_KEY": "canary/secret+key-e24c",
    "AWS_SESSION_TOKEN": "canary-session-90ef",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary-container-64aa",
    "WMTP_RUN_TOKEN": "canaryruntoken0f3b",
    "CANARY_OF_A_KEY": "canary-of-a-key-b7d4",
}


def found_in(place, data, secrets):
    return [f"{name} in {place}" for name, value in secrets.items()
            if value.encode() in data or base64.b64encode(value.encode()).rstrip(b"=") in data]


class CommandLines(threading.Thread):
    """Collects the command lines of all processes while a run lasts."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended, self.seen = threading.Event(), set()

    def run(self):
        while not self.ended.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:
                    continue


@pytest.fixture(scope="module", params=["token", "password"])
def spied(request, wmtp, mlflow, tmp_path_factory):
    """A run with failures at debug level, through a proxy that keeps every byte on its way to MLflow."""
    folder = tmp_path_factory.mktemp("canaries")
    runs = TinyRuns(wmtp, folder, steps=6, every=2)
    secrets = dict(CANARIES)
    if request.param == "password":
        del secrets["MLFLOW_TRACKING_TOKEN"]  # which would win
    env = {**without_mlflow(environment("save.manifest.fsync:nth=1=eio")), **secrets}
    rules = [{"path": "log-batch", "nth": "2-3", "action": {"status": 500, "handler": "server"}}]
    with FaultyServer(rules=rules, default={"handler": "server"}, handlers={"server": Proxy(mlflow.uri)}) as server:
        command = runs.command("run", ranks=2, log_dir=folder / "launch-logs", **{
            "mlflow__experiment": f"canary-{request.param}", "mlflow__tracking_uri": server.url,
            "mlflow__upload_artifacts": True, "tracking__tensorboard": True, "training__log_interval": 1,
            "logging__level": "debug", "checkpoint__async": False, "checkpoint__export_on_finish": "hf",
            "experiment__description": "a run of ${env:CANARY_OF_A_KEY}"})
        lines = CommandLines()
        lines.start()
        done = subprocess.run(command, capture_output=True, env=env, timeout=300)
        lines.ended.set()
        lines.join()
        assert done.returncode == 0, done.stdout + done.stderr
        yield {"folder": folder, "done": done, "requests": list(server.requests), "secrets": secrets,
               "command_lines": lines.seen, "kind": request.param}


def test_nothing_on_the_disk_or_the_console_holds_a_secret(spied):
    hits = found_in("stdout", spied["done"].stdout, spied["secrets"])
    hits += found_in("stderr", spied["done"].stderr, spied["secrets"])
    files = [path for path in spied["folder"].rglob("*") if path.is_file()]
    assert len(files) > 30, files
    for path in files:
        hits += found_in(path.relative_to(spied["folder"]), path.read_bytes(), spied["secrets"])
    for line in spied["command_lines"]:
        hits += found_in("a command line", line, spied["secrets"])
    assert not hits


def test_a_secret_goes_over_the_wire_in_the_authorization_header_alone(spied):
    assert len(spied["requests"]) > 5
    hits, authorized = [], 0
    for request in spied["requests"]:
        headers = "\n".join(f"{name}: {value}" for name, value in request.headers if name.lower() != "authorization")
        hits += found_in(request.target, f"{request.method} {request.target}\n{headers}\n".encode(), spied["secrets"])
        hits += found_in(f"the body of {request.target}", bytes(request.body), spied["secrets"])
        authorized += bool(re.match("Bearer|Basic", request.header("Authorization") or ""))
    assert not hits
    assert authorized == len(spied["requests"])


def test_of_the_keys_of_s3_only_signatures_leave_the_process(wmtp, ceph, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=4, every=2)
    bucket = ceph.make_bucket("wmtp-canaries")
    secrets = {name: ceph.variables[name] for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")}
    rules = [{"nth": "2-9", "rate": 0.5, "action": {"status": 503}},
             {"method": "PUT", "nth": "1", "action": {"status": 403, "body": "<Error><Code>InvalidAccessKeyId</Code></Error>"}}]
    with FaultyServer(rules=rules, default={"handler": "server"}, handlers={"server": Proxy(ceph.url)}) as server:
        options = {"checkpoint__s3_upload": True, "storage__s3__bucket": bucket, "storage__s3__endpoint": server.url, "logging__level": "debug"}
        done = subprocess.run(runs.command("run", **options), capture_output=True, env={**environment(), **ceph.variables}, timeout=300)
        requests = list(server.requests)
    assert done.returncode == 0, done.stdout + done.stderr
    hits = found_in("stdout", done.stdout, secrets) + found_in("stderr", done.stderr, secrets)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        hits += found_in(path.relative_to(tmp_path), path.read_bytes(), secrets)
    for request in requests:
        headers = "\n".join(f"{name}: {value}" for name, value in request.headers if name.lower() != "authorization")
        hits += found_in(request.target, f"{request.method} {request.target}\n{headers}\n".encode() + bytes(request.body), secrets)
        hits += found_in("Authorization", request.header("Authorization").encode(), {"secret": secrets["AWS_SECRET_ACCESS_KEY"]})
    assert len(requests) > 20 and not hits


def test_mlflow_shows_the_reference_of_a_value_from_the_environment(spied, mlflow):
    run = mlflow.the_run(f"canary-{spied['kind']}")
    assert run.data.tags["mlflow.note.content"] == "a run of ${env:CANARY_OF_A_KEY}"


def test_a_password_in_the_address_is_refused_without_being_repeated(wmtp, spied):
    config = spied["folder"] / "tiny.yaml"
    done = wmtp.run("validate", "--config", config, "--defaults", "none", "--override", "mlflow.experiment=x",
                    "--override", "mlflow.tracking_uri=https://user:canary-in-url-11aa@127.0.0.1:1", check=False)
    assert done.returncode == 78 and "credentials come from the environment" in done.stdout + done.stderr
    assert "canary-in-url" not in done.stdout + done.stderr
