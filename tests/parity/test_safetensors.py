"""safetensors files against the safetensors package, both ways."""
import hashlib
import os
import subprocess

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]


def random_tensors(seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4), (1, 1, 1, 9)]
    tensors = {}
    for i in range(40):
        dtype = DTYPES[i % len(DTYPES)]
        name = ["a.weight", "Z", "übung", "quote\"slash\\", "tab\tnew\n", "model.layers.10.x", "model.layers.9.x"][i % 7]
        values = torch.randint(-100, 100, shapes[i % len(shapes)], generator=generator)
        tensors[f"{name}.{i}"] = values.to(dtype)
    return tensors


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else \
        tensor.reshape(1).view(torch.uint8).numpy().tobytes()


@pytest.fixture
def copy(wmtp):
    binary = wmtp.binary.parent / "weights_test"
    if not binary.exists():
        pytest.fail(f"no {binary}: build the tests first")

    def run(source, target):
        env = {**os.environ, "WMTP_PARITY_IN": str(source), "WMTP_PARITY_OUT": str(target)}
        subprocess.run([str(binary), "--gtest_filter=CopyFile.*"], env=env, check=True, capture_output=True)
    return run


@pytest.mark.parametrize("seed", range(5))
def test_bytes_equal_save_file(copy, tmp_path, seed):
    save_file(random_tensors(seed), tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    copy(tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    assert (tmp_path / "theirs.safetensors").read_bytes() == (tmp_path / "ours.safetensors").read_bytes()


def test_more_metadata_is_equal_when_parsed(copy, tmp_path):
    metadata = {"format": "pt", "DCP_VERSION": "1.0", "note": 'a "quoted" \\ text\n'}
    tensors = random_tensors(9)
    save_file(tensors, tmp_path / "theirs.safetensors", metadata=metadata)
    copy(tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors")
    with safe_open(tmp_path / "ours.safetensors", "pt") as file:
        assert file.metadata() == metadata
    ours = load_file(tmp_path / "ours.safetensors")
    assert ours.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor)


def test_their_files_are_read_exactly(wmtp, tmp_path):
    tensors = random_tensors(3)
    save_file(tensors, tmp_path / "m.safetensors")
    lines = {line["name"]: line for line in
             wmtp.json_lines("checkpoint", "inspect", tmp_path / "m.safetensors", "--tensors")
             if line["type"] == "tensor"}
    assert lines.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert lines[name]["shape"] == list(tensor.shape)
        assert lines[name]["sha256"] == hashlib.sha256(raw(tensor)).hexdigest(), name


def test_what_the_package_refuses_is_refused(wmtp, tmp_path):
    save_file({"a": torch.zeros(4)}, tmp_path / "good.safetensors")
    good = (tmp_path / "good.safetensors").read_bytes()
    bad = tmp_path / "bad.safetensors"
    for damaged in (good[:-1], good + b"x", good[:4], b"", good.replace(b"[4]", b"[5]"), good.replace(b'"F32"', b'"F31"')):
        bad.write_bytes(damaged)
        with pytest.raises(Exception):  # noqa: B017 (whatever the library raises: it must not load)
            load_file(bad)
        wmtp.error("checkpoint", "inspect", bad, code=65)
