"""The client of src/wmtp/tracking/mlflow from Python: the program wmtp_mlflow_probe, one call in, one reply out."""
import contextlib
import os
from types import SimpleNamespace

import pytest
from http_probe import Probe

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
