"""Models against transformers and PyTorch: losses of every token, logits, gradients, of one head and of several.

Random models are saved as folders, `wmtp score` and wmtp_model_probe read them, and PyTorch computes the same in fp32.
"""
import json
import subprocess

import pytest
import torch
from model_cases import (CASES, SHAPE, as_version_4, check_scores, close_in_norm, logits_of, make_model, mtp_logits,
                         peer, peer_names, random_rows, rotation, score)
from safetensors.torch import load_file, save_file
from test_model_folders import meta_state
from tolerance import near, through_a_model, within


@pytest.fixture
def probe(wmtp, tmp_path):
    """Runs wmtp_model_probe on a folder: losses, gradients by name, logits by head."""
    def run(folder, rows):
        (tmp_path / "ids.json").write_text(json.dumps(rows))
        out = tmp_path / "probe"
        done = subprocess.run([wmtp.binary.parent / "wmtp_model_probe", "--model", folder, "--ids", tmp_path / "ids.json", "--out", out,
                               "--logits"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads((out / "probe.json").read_text()), load_file(out / "grads.safetensors"), \
            load_file(out / "logits.safetensors")
    return run


@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("case", CASES)
def test_token_losses(wmtp, tmp_path, rows_file, case, version):
    model = make_model(case)
    model.save_pretrained(tmp_path / "model")
    if version == 4:
        as_version_4(tmp_path / "model")
    rows = random_rows()
    check_scores(score(wmtp, tmp_path / "model", rows_file), rows, [[logits_of(model, row) for row in rows]])


@pytest.mark.parametrize("case", CASES)
def test_logits_and_gradients(tmp_path, probe, case):
    model = make_model(case)
    model.save_pretrained(tmp_path / "model")
    rows = random_rows((40, 7, 2, 33))
    report, grads, logits = probe(tmp_path / "model", rows)
    expected = [model(torch.tensor([row])).logits[0] for row in rows]
    flat = torch.cat([value[:-1] for value in expected])
    within((logits["head0"] - flat).abs().max(), through_a_model() * flat.abs().max())
    loss = torch.nn.functional.cross_entropy(flat, torch.tensor([token for row in rows for token in row[1:]]))
    near(report["loss"], loss.item(), rel=through_a_model())
    loss.backward()
    close_in_norm(grads, {name: parameter.grad for name, parameter in model.named_parameters()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("files", ["one file", "sharded", "the file itself"])
def test_how_weights_are_stored(wmtp, tmp_path, rows_file, files, dtype):
    model = make_model("qwen3 tied").to(dtype)
    folder = tmp_path / "model"
    model.save_pretrained(folder, **(dict(max_shard_size="20KB") if files == "sharded" else {}))
    assert (folder / "model.safetensors.index.json").exists() == (files == "sharded")
    name = folder / "model.safetensors" if files == "the file itself" else folder
    model, rows = type(model).from_pretrained(folder, dtype=torch.float32), random_rows()
    check_scores(score(wmtp, name, rows_file), rows, [[logits_of(model, row) for row in rows]])


def test_meta_folder(wmtp, tmp_path, rows_file):
    model = make_model("llama grouped", intermediate_size=96)
    torch.save(meta_state(model), tmp_path / "consolidated.00.pth")
    (tmp_path / "params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 96, "multiple_of": 32, "norm_eps": 1e-6}))
    rows = random_rows()
    check_scores(score(wmtp, tmp_path, rows_file), rows, [[logits_of(model, row) for row in rows]])


# ---- several heads ----

@pytest.fixture
def mtp(tmp_path):
    """The peer's model, in an export's layout: a plain Llama and the extra heads in a file of their own."""
    torch.manual_seed(5)
    model = peer.MtpModel(SHAPE, False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.15) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    names = peer_names(SHAPE)
    state = {names[name]: value.clone() for name, value in model.state_dict().items()}
    folder = tmp_path / "mtp"
    folder.mkdir()
    for file, extra in (("model.safetensors", False), ("mtp_heads.safetensors", True)):
        save_file({name: value for name, value in state.items() if ("extra_heads" in name) == extra}, folder / file,
                  metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
        "rope_theta": 1e4, "wmtp": {"n_future_tokens": 3, "mtp_file": "mtp_heads.safetensors"}}))
    return folder, model


def test_losses_of_every_head(wmtp, mtp, rows_file):
    folder, model = mtp
    rows = random_rows()
    by_row = [mtp_logits(model, row) if row else [torch.zeros(0, 96)] * 3 for row in rows]
    by_head = [[logits[head] for logits in by_row] for head in range(3)]
    lines = score(wmtp, folder, rows_file)
    check_scores(lines, rows, by_head)
    fewer = score(wmtp, folder, rows_file, "--heads", "2")
    assert [line["nll"] for line in fewer[:-1]] == [line["nll"][:2] for line in lines[:-1]]
    assert "--heads 4" in wmtp.error("score", "--model", folder, "--data", rows_file, "--heads", "4", code=78)["message"]


def test_gradients_of_every_head(mtp, probe):
    folder, model = mtp
    tokens = torch.tensor(random_rows((24, 24)))
    report, grads, logits = probe(folder, tokens.tolist())
    loss = model(tokens, tokens, *rotation(24))
    bound = through_a_model(SHAPE.blocks)
    near(report["loss"], loss.item(), rel=bound)
    for head in range(3):
        expected = torch.cat([mtp_logits(model, row)[head][:23 - head] for row in tokens.tolist()])
        within((logits[f"head{head}"] - expected).abs().max(), bound * expected.abs().max())
    loss.backward()
    names = peer_names(SHAPE)
    close_in_norm(grads, {names[name]: parameter.grad for name, parameter in model.named_parameters()})


def test_heads_do_not_touch_each_other(wmtp, mtp, rows_file):
    folder, _ = mtp
    before = score(wmtp, folder, rows_file)
    heads = load_file(folder / "mtp_heads.safetensors")
    save_file({name: value * (1.5 if ".extra_heads.0." in name else 1) for name, value in heads.items()},
              folder / "mtp_heads.safetensors", metadata={"format": "pt"})
    after = score(wmtp, folder, rows_file)
    assert before[0]["nll"][1] != after[0]["nll"][1]
    assert [[line["nll"][0], line["nll"][2]] for line in before[:-1]] == \
        [[line["nll"][0], line["nll"][2]] for line in after[:-1]]


def test_without_its_heads_file_an_mtp_folder_is_refused(wmtp, mtp, rows_file):
    folder, _ = mtp
    (folder / "mtp_heads.safetensors").unlink()
    assert "mtp_heads.safetensors" in \
        wmtp.error("score", "--model", folder, "--data", rows_file, "--device", "cpu", code=78)["message"]
