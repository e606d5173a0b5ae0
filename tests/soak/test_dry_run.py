"""Each fault that a dry run finds, met by the run itself: the same code, and the fault is named there too."""
import contextlib
import time

import pytest
from dry_run_lab import FAULTS, KEYS, Lab

FOUND = []


@pytest.fixture(scope="module")
def lab(wmtp, tmp_path_factory):
    return Lab(wmtp, tmp_path_factory.mktemp("lab"))


@pytest.mark.parametrize("name", FAULTS)
def test_the_run_ends_with_the_code_of_its_dry_run(lab, name):
    fault = FAULTS[name]
    overrides = [*fault.overrides, *(fault.prepare(lab) if fault.prepare else ())]
    if not any(one.startswith("runtime.run_dir") for one in overrides):
        overrides.append(f"runtime.run_dir=runs/{name.replace(' ', '-')}")
    with fault.place(lab) if fault.place else contextlib.nullcontext():
        begun = time.monotonic()
        dry = lab.dry(overrides, fault.flags, env=KEYS)
        seconds = time.monotonic() - begun
        run = lab.run("train", overrides, fault.flags, env=KEYS)
    assert (dry.returncode, run.returncode) == (fault.code, fault.code), run.stdout + run.stderr
    assert seconds < 30
    FOUND.append(name)


def test_the_figure():
    print(f"\ndry run: {len(FOUND)} of {len(FAULTS)} planted faults found with the code of the run itself")
    assert len(FOUND) >= 20
