"""The long tier (make soak): real runs, hours of them. WMTP_SOAK_SCALE is the part of the full counts to do."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))


@pytest.fixture(scope="session")
def scale():
    return float(os.environ.get("WMTP_SOAK_SCALE", "1"))


@pytest.fixture(autouse=True)
def needs_failpoints(wmtp):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
