"""The client of src/wmtp/s3 from Python: the program wmtp_s3_probe, one job in, one reply out. Names and bodies are bytes or
text here and base64 on the way."""
import base64
import contextlib
import os
from types import SimpleNamespace

import pytest
from http_probe import Probe

NAMES = ("name", "body")


def encoded(value):
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def decoded(text):
    return base64.b64decode(text)


class S3Probe(Probe):
    """The session is kept from one `ask` to the next; `options` makes a new one."""

    def ask(self, op=None, **job):
        job = {key: encoded(value) if key in NAMES else value for key, value in job.items()}
        reply = vars(super().ask(**({"op": op} if op else {}), **job))
        if reply.get("body"):
            reply["body"] = decoded(reply["body"])
        known = {"exit": None, "problem": None, "code": None, "text": None}
        return SimpleNamespace(**{**known, **reply})


@contextlib.contextmanager
def s3_probes(wmtp):
    """A function that starts an S3Probe with these variables and no others of AWS; all of them end with the block."""
    binary = wmtp.binary.parent / "wmtp_s3_probe"
    if not binary.exists():
        pytest.fail(f"no probe at {binary}: run make build, or ninja -C build wmtp_s3_probe")
    with contextlib.ExitStack() as started, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)

        def start(env=None):
            made = S3Probe(str(binary), {"HOME": "/nonexistent", **(env or {})})
            started.callback(made.kill)
            return made
        yield start
