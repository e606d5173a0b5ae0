"""The client of src/wmtp/tracking/mlflow from Python: the program wmtp_mlflow_probe, one call in, one reply out."""
import os
from types import SimpleNamespace

from http_probe import Probe, probes

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


def mlflow_probes(wmtp):
    return probes(wmtp, "wmtp_mlflow_probe", MlflowProbe)
