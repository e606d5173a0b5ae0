"""Errors held to bounds. With WMTP_TOLERANCE_LOG=FILE, the largest error / bound of every place is appended to it when
the tests end, as tests/support/tolerance.h does for C++."""
import atexit
import math
import os
import sys
from pathlib import Path

import numpy as np

_worst = {}  # place: (share, error, bound)


def _write():
    with open(os.environ["WMTP_TOLERANCE_LOG"], "a") as log:
        log.write("".join(f"{place} {error:.6g} {bound:.6g}\n" for place, (_, error, bound) in _worst.items()))


if "WMTP_TOLERANCE_LOG" in os.environ:
    atexit.register(_write)


def _array(values):
    return np.asarray(values.detach() if hasattr(values, "detach") else values, float)


def _hold(errors, bounds, what, frame):
    """Every error within its bound; NaN is not."""
    errors, bounds = np.broadcast_arrays(_array(errors), _array(bounds))
    if not errors.size:
        return
    shares = np.divide(errors, bounds, out=np.where(errors == 0, 0.0, np.inf), where=bounds > 0)
    at = int(np.argmax(np.where(np.isnan(shares), np.inf, shares)))
    share, error, bound = (float(values.flat[at]) for values in (shares, errors, bounds))
    path = Path(frame.f_code.co_filename)
    place = f"{path.parent.name}/{path.name}:{frame.f_lineno}"
    if place not in _worst or not share <= _worst[place][0]:
        _worst[place] = (share, error, bound)
    assert error <= bound, f"{what}: an error of {error:.6g} where {bound:.6g} is allowed"


def through_a_model(blocks=3, double=False, adapters=False, width=32, mlp=48):
    """How far apart, relatively, two programs may be in what has gone through one of the small models of these tests
    (96 tokens): 8 u sqrt(n), as in tests/model/model_run.h, n being the additions of the sums on the way through the
    model and back in both programs, twice as many with adapters beside the projections."""
    block = 7 * width + mlp
    additions = 2 * 2 * (blocks * block * (2 if adapters else 1) + 96)
    return 8 * 2 ** (-53 if double else -24) * math.sqrt(additions)


def within(error, bound, what=""):
    _hold(error, bound, what, sys._getframe(1))


def near(found, expected, rel=0.0, abs=0.0, what="", frames=1):
    """Element by element, |found - expected| <= max(rel |expected|, abs); equal infinities and NaN in both are equal.
    The place is `frames` calls up."""
    found, expected = _array(found), _array(expected)
    assert found.shape == expected.shape, what
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    errors = np.where(same, 0.0, np.abs(np.where(same, 0.0, found) - np.where(same, 0.0, expected)))
    bounds = np.where(same, 1.0, np.maximum(rel * np.abs(expected), abs))
    _hold(errors, bounds, what, sys._getframe(frames))
