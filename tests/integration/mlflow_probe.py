"""The client of src/wmtp/tracking/mlflow from Python: the program wmtp_mlflow_probe, one call in, one reply out."""
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from http_probe import Probe

START = Path(__file__).resolve().parents[1] / "support/servers/mlflow.sh"
NOTHING = dict.fromkeys(("result", "kind", "refused", "error_code", "about_content", "unavailable", "retry_after"))


class MlflowProbe(Probe):
    """One wmtp::tracking::mlflow::Server at a time; connections are kept from call to call."""

    def __init__(self, binary, env=None):
        super().__init__(binary, {**dict.fromkeys((name for name in os.environ if name.startswith("MLFLOW_")), ""), **(env or {})})

    def connect(self, uri):
        return self.call(None, connect=uri)

    def call(self, what, /, **job):
        reply = self.ask(**job, **({"call": what} if what else {}))
        return SimpleNamespace(**{**NOTHING, **vars(reply)})

    def must(self, what, /, **job):
        """The result of a call that succeeds."""
        reply = self.call(what, **job)
        assert reply.kind is None, reply.text
        return reply.result


@contextlib.contextmanager
def mlflow_probes(wmtp):
    """A function that starts a probe with more variables in its environment; all of them end with the block."""
    binary = wmtp.binary.parent / "wmtp_mlflow_probe"
    if not binary.exists():
        pytest.fail(f"no probe at {binary}: run make build, or ninja -C build wmtp_mlflow_probe")
    with contextlib.ExitStack() as started:
        def start(env=None):
            made = MlflowProbe(str(binary), env)
            started.callback(made.kill)
            return made
        yield start


@contextlib.contextmanager
def mlflow_server(folder):
    """A real one, and MLflow's own client of it: SimpleNamespace(uri, client)."""
    command = [str(START), "start", str(folder), sys.prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as starting:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        from mlflow import MlflowClient  # takes seconds, as the server does
        text = starting.stdout.read()
    if starting.returncode:
        pytest.fail(f"no MLflow server:\n{text}")
    try:
        uri = text.split("MLFLOW_TRACKING_URI=")[1].strip()
        yield SimpleNamespace(uri=uri, client=MlflowClient(tracking_uri=uri))
    finally:
        subprocess.run([str(START), "down", str(folder)], check=True, capture_output=True)
