"""What the program finds in a file of torch.save, held to the tensors that were put there."""
import hashlib

import torch


def sha(tensor):
    return hashlib.sha256(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def tensors_of(wmtp, path):
    return {line["name"]: line for line in wmtp.json_lines("checkpoint", "inspect", path, "--tensors")
            if line["type"] == "tensor"}


def check(wmtp, path, expected):
    found = tensors_of(wmtp, path)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name]["shape"] == list(value.shape) and found[name]["sha256"] == sha(value), name
