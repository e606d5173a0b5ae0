"""Model folders that do not fit, are damaged or unsupported: refused by name, and no file is left."""
import json

import pytest
import torch
from test_model_folders import edit_config, edit_weights


def refused(wmtp, folder, rows_file, code):
    return wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", "--out", folder / "out.jsonl",
                      code=code)["message"]


def test_all_misfits_are_listed(wmtp, llama, rows_file):
    def change(tensors):
        tensors.pop("model.layers.1.mlp.up_proj.weight")
        tensors["model.norm.weight"] = torch.zeros(31)
        tensors["stranger"] = torch.zeros(2, 3)
    edit_weights(llama[0], change)
    message = refused(wmtp, llama[0], rows_file, 78)
    for name in ("model.layers.1.mlp.up_proj.weight", "model.norm.weight is [31], expected [32]", "stranger [2, 3]"):
        assert name in message
    assert not list(llama[0].glob("*out.jsonl*"))


def test_damaged_files(wmtp, llama, rows_file):
    folder, _ = llama
    whole = (folder / "model.safetensors").read_bytes()
    for size in (4, 200, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:size])
        assert "model.safetensors" in refused(wmtp, folder, rows_file, 65)
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"model.norm.weight": "../outside.safetensors"}}))
    refused(wmtp, folder, rows_file, 65)


REFUSED = {
    "model_type": dict(model_type="mamba"),
    "yarn": dict(rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=2.0)),
    "attention_bias": dict(attention_bias=True),
    "quantization_config": dict(quantization_config={"bits": 4}),
    "expected [64, 32]": dict(vocab_size=64),
}


@pytest.mark.parametrize("word", REFUSED)
def test_unsupported_configs_are_refused_by_name(wmtp, llama, rows_file, word):
    edit_config(llama[0], **REFUSED[word])
    assert word in refused(wmtp, llama[0], rows_file, 78)


def test_more_blocks_in_the_config_than_in_the_file(wmtp, llama, rows_file):
    edit_config(llama[0], num_hidden_layers=4)
    assert "9 missing: model.layers.3." in refused(wmtp, llama[0], rows_file, 78)


def test_infinite_weights_are_no_score(wmtp, llama, rows_file):
    edit_weights(llama[0], lambda tensors: tensors["model.norm.weight"].fill_(float("inf")))
    assert "row 0" in refused(wmtp, llama[0], rows_file, 17)
