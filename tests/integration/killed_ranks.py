"""Launchers that are not ours, and ranks under them that are killed now and then until the run has ended."""
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import children, environment, wait_for


def torchrun_of_tests():
    """The program, or a skip."""
    program = Path(sys.executable).with_name("torchrun")
    if not program.exists():
        pytest.skip("torchrun is not installed")
    return program


def mpirun_of_tests(world, *flags):
    """argv of it, or a skip. As root it asks for two variables, and for a word where there are fewer cores than ranks."""
    if not shutil.which("mpirun"):
        pytest.skip("no mpirun: tools/setup --python installs it")
    return ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "-np", str(world),
            "--oversubscribe", "--bind-to", "none", *flags]


def ranks_below(pid):
    """The training processes among a launcher's children."""
    found = []
    for child in children(pid):
        try:
            if Path(f"/proc/{child}/comm").read_text().strip() == "wmtp":
                found.append(child)
        except OSError:  # it has just ended
            pass
    return sorted(found)


def rank_below(pid, rank):
    """The process of that rank among a launcher's children."""
    (found,) = [child for child in ranks_below(pid) if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")]
    return found


def run_with_kills(runs, name, launcher, world, kills, **overrides):
    """SIGKILL for `kills` ranks, each after a new checkpoint; the launcher's code and what all have said."""
    log = runs.folder / f"{name}.log"
    with log.open("w") as file:
        process = subprocess.Popen([*map(str, launcher), *runs.command(name, **overrides)], stdout=file, stderr=file,
                                   env=environment("step.begin:nth=1+=sleep:100"))
    for kill in range(kills):
        before = max(runs.steps(name), default=0)
        wait_for(lambda: max(runs.steps(name), default=0) > before and len(ranks_below(process.pid)) == world
                 or process.poll() is not None, seconds=400)
        assert process.poll() is None, log.read_text()
        os.kill(ranks_below(process.pid)[kill % world], signal.SIGKILL)
    return process.wait(400), log.read_text()
