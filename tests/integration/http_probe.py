"""The client of src/wmtp/http from Python: the program wmtp_http_probe, one job in, one reply out."""
import contextlib
import json
import os
import subprocess
import threading
from types import SimpleNamespace

import pytest


class Probe:
    """Connections are kept from one `ask` to the next, as in one wmtp::http::Client."""

    def __init__(self, binary, env=None):
        clean = {name: value for name, value in os.environ.items()
                 if not name.lower().endswith("_proxy") and name not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE")}
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**clean, **(env or {})})
        self.out, self.err = [], []
        # Read all the time: a log that fills its pipe would stop the probe.
        self.reader = threading.Thread(target=lambda: self.err.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def ask(self, url=None, **job):
        """The reply as an object; None stands for what it does not have."""
        self.process.stdin.write(json.dumps({**({"url": url} if url else {}), **job}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.reader.join()
            pytest.fail(f"the probe ended with {self.process.returncode}:\n{''.join(self.err)}")
        self.out.append(line)
        known = {"status": None, "failure": None, "tls": None, "code": None, "text": None, "body": None}
        reply = SimpleNamespace(**{**known, **json.loads(line)})
        reply.headers = {name.lower(): value for name, value in getattr(reply, "headers", [])}
        return reply

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def close(self):
        """All that the probe has written, results and log."""
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.reader.join()
        return "".join(self.out + self.err)


@contextlib.contextmanager
def probes(wmtp, program="wmtp_http_probe", kind=None):
    """A function that starts a Probe with more variables in its environment; all of them end with the block."""
    binary = wmtp.binary.parent / program
    if not binary.exists():
        pytest.fail(f"no probe at {binary}: run make build, or ninja -C build {program}")
    with contextlib.ExitStack() as started:
        def start(env=None):
            made = (kind or Probe)(str(binary), env)
            started.callback(made.kill)
            return made
        yield start
