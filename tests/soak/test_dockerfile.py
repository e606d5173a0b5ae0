"""The lines of packaging/Dockerfile in their order on a bare Debian 12, without Docker, and what the image is for."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from doctor_tables import assert_bandwidths_are_told

ROOT = Path(__file__).resolve().parents[2]


def test_every_line_runs_and_the_program_works_as_the_user_of_the_image(wmtp):
    if os.geteuid() != 0 or not shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"):
        pytest.skip("needs root and debootstrap")
    # In a folder of its own: pytest would remove one of its through the mounts that a SIGKILL leaves behind.
    done = subprocess.run([ROOT / "tools/fresh_machine", "--build", wmtp.binary.parents[1], "image"], capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-6000:]
    ends = re.findall(r"^-- user (\d+), (\d+) s, ended with (\d+): (.*)$", told, re.M)
    assert {code for _user, _seconds, code, _script in ends} == {"0"}
    runs = (ROOT / "packaging/Dockerfile").read_text().count("\nRUN ")
    assert [user for user, *_ in ends[:runs]] == ["0"] * runs
    assert [(user, script) for user, _seconds, _code, script in ends[runs:runs + 1]] == [("10001", "wmtp doctor")]
    assert "OK   launcher     torchrun: rank 0 of 2" in told
    assert_bandwidths_are_told(told)
    for user, seconds, _code, script in ends:
        print(f"{seconds:>4} s as {user}: {script[:100]}")
