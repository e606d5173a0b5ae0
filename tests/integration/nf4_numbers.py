"""NF4 in NumPy, from its definition: what the program is held to. Nothing of the program is used."""
import numpy as np
import torch

BITS = ("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 00000000 3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 "
        "3f1007ab 3f3913b3 3f800000")
TABLE = np.array([int(word, 16) for word in BITS.split()], dtype=np.uint32).view(np.float32)
THRESHOLDS = ((TABLE[:-1].astype(np.float64) + TABLE[1:]) / 2).astype(np.float32)


def signed_map():
    """The 256 numbers of 8-bit scales; torch.linspace has the fp32 steps of the libraries."""
    entries = [0.0, 1.0]
    for i in range(7):
        borders = torch.linspace(0.1, 1, 2**i + 1)
        means = (10**(i - 6) * (borders[:-1] + borders[1:]) / 2).tolist()
        entries += means + [-mean for mean in means]
    return np.array(sorted(entries), dtype=np.float32)


MAP = signed_map()


def through_nf4(weight):
    """A matrix of fp32 numbers, a multiple of 64 of them, as it comes back: table * a', each operation rounded by itself."""
    blocks = weight.reshape(-1, 64).astype(np.float32)
    absmax = np.abs(blocks).max(axis=1)
    scaled = blocks * (np.float32(1) / np.maximum(absmax, np.float32(1e-38)))[:, None]
    index = np.searchsorted(THRESHOLDS, scaled, side="left")
    total = 0.0
    for a in absmax.tolist():
        total += a
    offset = np.float32(total / len(absmax))
    restored = np.empty_like(absmax)
    for first in range(0, len(absmax), 256):
        z = absmax[first:first + 256] - offset
        b = np.abs(z).max()
        ratio = z * (np.float32(1) / np.maximum(b, np.float32(1e-38)))
        distance = np.abs(MAP[None, :].astype(np.float64) - ratio[:, None].astype(np.float64))
        restored[first:first + 256] = MAP[distance.argmin(axis=1)] * b + offset  # the first of two equally near
    return (TABLE[index] * restored[:, None]).reshape(weight.shape)
