"""wmtp_vectors for tests: it answers one JSON line per question, in double precision. And random inputs, with the edge
cases among them: rows without response, one token, ties, NaN in masked places.
"""
import json
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import tolerance
import torch

ROOT = Path(__file__).resolve().parents[2]
VECTORS_BINARY = Path(os.environ.get("WMTP_VECTORS", ROOT / "build/bin/wmtp_vectors"))
NAN = float("nan")
DOUBLE = torch.float64


class Vectors:
    """Asks the running tool; numbers come back as arrays, null as NaN."""

    def __init__(self, binary):
        self.process = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked = 0

    def reply(self, family, fields):
        self.asked += 1
        question = {"id": self.asked, "family": family, "in": {name: plain(value) for name, value in fields.items()}}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.asked
        return answer

    def __call__(self, family, **fields):
        answer = self.reply(family, fields)
        assert "out" in answer, answer
        return answer["out"]

    def error(self, family, **fields):
        answer = self.reply(family, fields)
        assert "out" not in answer, answer
        return answer["error"]


def plain(value):
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return value.tolist()
    return {name: plain(entry) for name, entry in value.items()} if isinstance(value, dict) else value


def array(value):
    value = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    return np.array(value, dtype=float)  # None becomes NaN


BOUND = 8 * 2**-53 * math.sqrt(64)  # 8 u sqrt(n), as in tests/model/model_run.h, of sums over n = 64 values


def near(got, wanted, bound=BOUND):
    """To `bound` of the largest."""
    got, wanted = array(got), array(wanted)
    largest = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
    tolerance.near(got, wanted, rel=bound, abs=bound * largest, frames=2)


def random_rows(rng, rows=7, length=9, gaps=False):
    """Values, mask, rewards. Row 0 has no response, row 1 one token, row 2 no prompt; NaN right of the response."""
    v, m = rng.normal(size=(rows, length)), np.zeros((rows, length), dtype=int)
    for b in range(1, rows):
        start = 0 if b == 2 else int(rng.integers(0, length - 1))
        stop = start + 1 if b == 1 else int(rng.integers(start + 1, length + 1))
        m[b, start:stop] = 1
        if gaps and stop - start > 3:
            m[b, start + 1 + int(rng.integers(0, stop - start - 2))] = 0
        v[b, stop:] = NAN
        if start > 1:
            v[b, :start - 1] = NAN  # only the last prompt position may be read
    v[0] = NAN
    return v, m, rng.integers(0, 2, rows).astype(float) + 0.25 * rng.integers(0, 2, rows)


def response(m):
    places = np.flatnonzero(m)
    return (places[0], places[-1]) if len(places) else None


def random_logits(rng, rows=3, length=7, heads=3, vocabulary=5):
    n = rng.integers(1, length + 1, rows)
    n[0], n[-1] = length, 1
    a = (np.arange(length)[None] < n[:, None]).astype(int)
    y = np.where((rng.random((rows, length)) < .7) & (a == 1), rng.integers(0, vocabulary, (rows, length)), -100)
    z = 2 * rng.normal(size=(rows, length, heads, vocabulary))
    return z, y, a, ((a == 1) & (y != -100)).astype(int)


def valid_places(m, k):
    return [(b, i) for b in range(m.shape[0]) for i in range(m.shape[1] - k) if m[b, i + k]]
