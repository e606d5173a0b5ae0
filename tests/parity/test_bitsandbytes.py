"""NF4 against bitsandbytes: both levels, folders it wrote, what models in 4 bits predict, and adapters upon them."""
import json
import math
import shutil

import pytest
import torch
from model_cases import make_model, random_rows, score, write_rows
from safetensors.torch import load_file, save_file
from test_model_folders import edit_config, inspect, sha
from tolerance import near, through_a_model, within

ROWS = random_rows((40, 1, 7, 2, 33))
PREDICTED = [row for row in ROWS if len(row) > 1]
KINDS = {"llama": "llama grouped", "qwen3": "qwen3 tied"}
# bitsandbytes takes rows back one by one: where a block of 64 reaches into the next row, its AVX-512 body reads the wrong scales.
WHOLE_ROWS = dict(hidden_size=64, intermediate_size=128, head_dim=16)
BOUND = through_a_model(width=64, mlp=128)


@pytest.fixture(scope="module")
def folders(bnb, tmp_path_factory):
    """folder(kind, dtype, double, shard="5GB"): what transformers and bitsandbytes write of a small model, made once."""
    root, made = tmp_path_factory.mktemp("bnb"), {}

    def folder(kind, dtype="bfloat16", double=True, shard="5GB", **changes):
        key = "-".join(map(str, (kind, dtype, double, shard, *changes.values())))
        if key not in made:
            make_model(KINDS[kind], **WHOLE_ROWS | changes).save_pretrained(root / f"{key}-plain")
            bnb.write_folder(source=root / f"{key}-plain", out=root / key, dtype=dtype, double=double, shard=shard)
            made[key] = root / key
        return made[key]
    return folder


# ---- the two levels ----

def matrices():
    torch.manual_seed(5)
    normal = torch.randn(300, 64) * 0.02  # two groups of blocks, one of them short
    zeros = normal.clone()
    zeros.view(-1, 64)[::7] = 0
    heavy = torch.distributions.StudentT(1.5).sample((150, 128))
    tiny = torch.randn(8, 64) * 1e-40  # fp32 subnormals
    tiny.view(-1)[::5] *= 2.0**-8
    edges = torch.linspace(-1, 1, 64 * 64)  # falls onto thresholds of the table
    return {"normal": normal, "heavy": heavy, "zeros": zeros, "tiny": tiny, "edges": edges, "equal": torch.full((4, 64), -0.3),
            "short": normal.flatten()[:650].clone()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_both_levels(ask, bnb, tmp_path, dtype):
    """The first one bit for bit. bitsandbytes looks the second one up in bins: a code beside the nearest one is as far as the map's
    widest step, 0.9 / 64 of b, and the scales' mean is summed in another order."""
    values = {name: matrix.to(dtype) for name, matrix in matrices().items()}
    save_file(values, tmp_path / "values.safetensors")
    bnb.levels(values=tmp_path / "values.safetensors", out=tmp_path / "theirs.safetensors")
    theirs = load_file(tmp_path / "theirs.safetensors")
    for name, matrix in values.items():
        ours = {key: torch.tensor(value, dtype=torch.float64) for key, value in ask("nf4", values=matrix.double().flatten()).items()}
        assert torch.equal(ours["packed"].byte(), theirs[f"{name}.packed"]), name
        assert torch.equal(ours["absmax"].float(), theirs[f"{name}.absmax"]), name
        assert torch.equal(ours["values"].to(dtype), theirs[f"{name}.values"].flatten().to(dtype)), name
        if name == "tiny":
            continue  # 1 / b is beyond fp32
        group_max = ours["group_max"].repeat_interleave(256)[:len(ours["absmax"])]
        off = ours["nested_absmax"] - theirs[f"{name}.nested_absmax"].double()
        within(off.abs(), 0.015 * group_max + 4 * 2**-24 * ours["absmax"].abs().max(), name)


# ---- folders ----

@pytest.mark.parametrize("kind, dtype, double, shard", [
    ("llama", "bfloat16", True, "5GB"), ("llama", "float32", False, "5GB"), ("qwen3", "float16", True, "100KB")])
def test_weights_of_a_folder_are_those_of_bitsandbytes(wmtp, bnb, folders, tmp_path, kind, dtype, double, shard):
    """Bit for bit: table times scale, rounded once. The wide MLP has weights of two groups of scales."""
    folder = folders(kind, dtype, double, shard, intermediate_size=512)
    assert (folder / "model.safetensors.index.json").exists() == (shard != "5GB")
    bnb.weights(folder=folder, out=tmp_path / "theirs.safetensors")
    theirs = load_file(tmp_path / "theirs.safetensors")
    assert len(theirs) == 3 * 7
    _, tensors = inspect(wmtp, folder)
    for name, weight in theirs.items():
        assert tensors[name]["sha256"] == sha(weight), name
        assert tensors[name]["dtype"] == "NF4" and tensors[name]["shape"] == list(weight.shape)
        blocks = weight.numel() // 64
        scales = blocks + 4 * math.ceil(blocks / 256) if double else 4 * blocks
        assert tensors[name]["bytes"] == weight.numel() // 2 + scales
    assert tensors["model.norm.weight"]["dtype"] == {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}[dtype]
    assert not any("quant" in name or "absmax" in name for name in tensors)


def close_to(theirs, lines, bound, what):
    """The losses of all predictions: `bound` of the largest logit."""
    ours = {line["row"]: line["nll"][0] for line in lines if line["type"] == "score"}
    for i, expected in enumerate(theirs["nll"]):
        near(ours[i][:len(expected)], expected, abs=bound * theirs["largest"], what=what)


@pytest.mark.parametrize("kind, double", [("llama", True), ("llama", False), ("qwen3", True)])
def test_scores_of_a_folder_are_those_of_transformers(wmtp, bnb, folders, tmp_path, kind, double):
    """The same weights in both programs, computed with in fp32. (Where a state names bf16, bitsandbytes' products in fp32 take the
    weights before that rounding.)"""
    folder = folders(kind, "float32", double)
    data = write_rows(tmp_path / "rows.jsonl", PREDICTED)
    close_to(bnb.nll(folder=folder, rows=PREDICTED), score(wmtp, folder, data), BOUND, kind)


def test_an_export_of_a_folder_holds_its_weights(wmtp, bnb, folders, tmp_path):
    folder = folders("llama")
    result = wmtp.json("checkpoint", "export", folder, "--format", "hf", "--out", tmp_path / "hf")
    assert result["dtype"] == "bf16" and result["nf4_base"] and result["nf4_distance"] is None
    bnb.weights(folder=folder, out=tmp_path / "theirs.safetensors")
    exported = load_file(tmp_path / "hf/model.safetensors")
    for name, weight in load_file(tmp_path / "theirs.safetensors").items():
        assert torch.equal(exported[name], weight), name
    assert "quantization_config" not in json.loads((tmp_path / "hf/config.json").read_text())
    said = wmtp.run("checkpoint", "export", folder, "--format", "hf", "--out", tmp_path / "hf").stdout
    assert "no unquantised weights are at hand" in said


# ---- what is refused ----

def broken(folders, tmp_path, change):
    folder = shutil.copytree(folders("llama"), tmp_path / "broken")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


Q = "model.layers.0.self_attn.q_proj.weight"
STATE = f"{Q}.quant_state.bitsandbytes__nf4"


def edit_state(**changes):
    def change(tensors):
        state = json.loads(bytes(tensors[STATE])) | changes
        tensors[STATE] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    return change


DAMAGE = {
    f"tensor {Q}.absmax is missing": (65, lambda t: t.pop(f"{Q}.absmax")),
    f"{Q}.quant_map is not the table": (65, lambda t: t[f"{Q}.quant_map"].neg_()),
    f"{Q}.nested_quant_map is not the table": (65, lambda t: t[f"{Q}.nested_quant_map"][3].add_(1e-3)),
    "its state says U8 [1024, 1]": (65, edit_state(shape=[32, 64])),
    "blocksize is 128, not 64": (78, edit_state(blocksize=128)),
    f"unexpected: {Q}.absmax": (78, lambda t: t.pop(STATE)),
    "the scale of block": (65, lambda t: t[f"{Q}.nested_absmax"].fill_(math.inf)),
    f"{Q} is [32, 128], expected [64, 64]": (78, edit_state(shape=[32, 128])),
    f"{STATE}: byte": (65, lambda t: t[STATE][-1].zero_()),
}


@pytest.mark.parametrize("fact", DAMAGE)
def test_damaged_folders_are_refused_by_name(wmtp, folders, tmp_path, rows_file, fact):
    code, change = DAMAGE[fact]
    folder = broken(folders, tmp_path, change)
    message = wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", code=code)["message"]
    assert fact in message, message


UNREAD = {
    "load_in_8bit is true": dict(load_in_8bit=True, load_in_4bit=False),
    'bnb_4bit_quant_type is "fp4"': dict(bnb_4bit_quant_type="fp4"),
    'bnb_4bit_quant_storage is "bfloat16"': dict(bnb_4bit_quant_storage="bfloat16"),
    'quant_method is "awq"': dict(quant_method="awq"),
}


@pytest.mark.parametrize("fact", UNREAD)
def test_other_quantisations_are_refused_by_name(wmtp, folders, tmp_path, rows_file, fact):
    folder = shutil.copytree(folders("llama"), tmp_path / "other")
    edit_config(folder, quantization_config=json.loads((folder / "config.json").read_text())["quantization_config"] | UNREAD[fact])
    error = wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", code=78)
    assert f"quantization_config.{fact}" in error["message"] and "quantize: nf4" in error["hint"]


def test_a_configuration_that_says_nf4_of_whole_weights(wmtp, folders, tmp_path, rows_file):
    make_model(KINDS["llama"]).save_pretrained(tmp_path / "plain")
    edit_config(tmp_path / "plain", quantization_config={"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"})
    error = wmtp.error("score", "--model", tmp_path / "plain", "--data", rows_file, "--device", "cpu", code=78)
    assert "quantization_config says NF4, and no weight" in error["message"]
