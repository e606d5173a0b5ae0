"""`wmtp checkpoint import`: files of torch.save as folders that transformers and PEFT read, and that score and judge as the
same weights do in PyTorch; what cannot be told is refused and leaves nothing behind."""
import json
import os

import pytest
import torch
from model_cases import check_scores, logits_of, make_model, random_rows, score, write_rows
from peft import PeftModel
from safetensors.torch import load_file, save_file
from test_hostile_torch_files import archive, glob, program, touch
from test_model_folders import meta_state
from test_python_checkpoints import (ALPHA, META, RANK, Critic, adapt, backbone_of, check_values, interleaved, lora_state,
                                     mlp_head, place, save)  # noqa: F401 (place is a fixture)
from tolerance import through_a_model, within
from transformers import AutoModelForCausalLM

ROWS = random_rows((17, 5))


def bring(wmtp, file, out, *flags, **options):
    result = wmtp.json("checkpoint", "import", file, "--out", out, *flags, **options)
    assert result["verified"] and result["files"] == sorted(os.listdir(result["folder"]))
    return result


@pytest.fixture
def rows_file(tmp_path):
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def scores_as(wmtp, folder, rows_file, model):
    check_scores(score(wmtp, folder, rows_file), ROWS, [[logits_of(model, row) for row in ROWS]])


# ---- whole models ----

@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("key", ["model_state_dict", "adapter_state_dict", "bare"])
def test_a_whole_model(wmtp, tmp_path, rows_file, key, dtype):
    """The base says the sizes only: its own weights and its dtype are others."""
    make_model("llama grouped").half().save_pretrained(tmp_path / "base")
    model = make_model("llama grouped")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.25)
    state = {name: value.to(dtype) for name, value in model.state_dict().items()}
    model.load_state_dict(state)  # rounded, in fp32
    if key == "bare":
        torch.save(state, tmp_path / "a.pt")
    else:
        save(tmp_path / "a.pt", **{key: state}, optimizer_state_dict={"state": {}, "param_groups": []})
    result = bring(wmtp, tmp_path / "a.pt", tmp_path / "out", "--base-model", tmp_path / "base")
    assert (result["kind"], result["format"], result["dtype"]) == ("model", "hf", "bf16" if dtype == torch.bfloat16 else "fp32")
    assert result["left_out"] == ([] if key == "bare" else ["epoch", "train_metrics", "val_metrics", "optimizer_state_dict"])
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert all(torch.equal(again.state_dict()[name], value) for name, value in state.items())
    scores_as(wmtp, tmp_path / "out", rows_file, model)


def test_weights_of_two_dtypes_lose_nothing(wmtp, tmp_path):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    state = {name: value.bfloat16() if value.dim() == 2 else value for name, value in model.state_dict().items()}
    save(tmp_path / "a.pt", model_state_dict=state)
    assert bring(wmtp, tmp_path / "a.pt", tmp_path / "out", "--base-model", tmp_path / "base")["dtype"] == "fp32"
    written = load_file(tmp_path / "out/model.safetensors")
    assert all(torch.equal(written[name], value.float()) for name, value in state.items())
    narrow = bring(wmtp, tmp_path / "a.pt", tmp_path / "out", "--base-model", tmp_path / "base", "--dtype", "bf16")
    assert narrow["dtype"] == "bf16" and load_file(tmp_path / "out/model.safetensors")["model.norm.weight"].dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_export_comes_back_bit_for_bit(wmtp, tmp_path, dtype):
    """A model with extra heads: export --format pt, import, against the same weights exported as a folder."""
    for format, out in [("pt", "there"), ("hf", "straight")]:
        wmtp.run("checkpoint", "export", "micro", "--format", format, "--dtype", dtype, "--out", tmp_path / out,
                 *(["--keep-mtp"] if format == "hf" else []))
    bring(wmtp, tmp_path / "there/checkpoint.pt", tmp_path / "back")

    def sums(folder):
        lines = wmtp.json_lines("checkpoint", "inspect", folder, "--tensors")
        return {line["name"]: (line["dtype"], line["sha256"]) for line in lines if line["type"] == "tensor"}
    back = sums(tmp_path / "back")
    assert back == sums(tmp_path / "straight") and any("extra_heads" in name for name in back)
    assert json.loads((tmp_path / "back/config.json").read_text()) == json.loads((tmp_path / "straight/config.json").read_text())


# ---- adapters ----

def lora_file(path, adapters, **content):
    return save(path, checkpoint_type="hf_lora", lora_state_dict=lora_state(adapters), **{
        "value_head_state_dict": {}, "lora_config": {"rank": RANK, "alpha": ALPHA, "dropout": 0.05}, "base_model_path": "base",
        **content})


@pytest.mark.parametrize("which", ["every block", "some modules"])
def test_adapters_in_peft(wmtp, tmp_path, rows_file, which):
    model = make_model("llama grouped")
    model.save_pretrained(tmp_path / "base")
    adapters = adapt(model, {"q_proj", "down_proj"})
    if which == "some modules":
        for name in [name for name in adapters if ".1." in name and "down_proj" in name]:
            adapters.pop(name)
            model.get_submodule(name)._forward_hooks.clear()
    result = bring(wmtp, lora_file(tmp_path / "a.pt", adapters), tmp_path / "out")
    assert (result["kind"], result["format"], result["dtype"], result["merged"]) == ("adapter", "peft", "fp32", False)
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["lora_dropout"]) == (RANK, ALPHA, 0.05)
    assert len(config["target_modules"]) == (2 if which == "every block" else 5)
    stored = load_file(tmp_path / "out/adapter_model.safetensors")
    assert len(stored) == 2 * len(adapters)
    for name, (a, b) in adapters.items():
        assert torch.equal(stored[f"base_model.model.{name}.lora_A.weight"], a)
        assert torch.equal(stored[f"base_model.model.{name}.lora_B.weight"], b)
    again = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), tmp_path / "out").eval()
    for row in ROWS:
        want = logits_of(model, row)
        within((logits_of(again, row) - want).abs().max(), through_a_model() * want.abs().max())
    scores_as(wmtp, tmp_path / "out", rows_file, model)


@pytest.mark.parametrize("trains_heads", [False, True])
def test_a_policy_with_extra_heads(wmtp, tmp_path, rows_file, trains_heads):
    """Adapters of heads have a file of their own. Weights of heads that were trained whole fit into no adapter: then it is
    the merged model."""
    model = make_model("llama grouped", intermediate_size=96)
    (tmp_path / "base").mkdir()
    save_file(meta_state(model, n_future=2), tmp_path / "base/model.safetensors")
    (tmp_path / "base/params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 96, "multiple_of": 32, "norm_eps": 1e-6,
        "n_future_tokens": 2}))
    lora = {}
    for name, (a, b) in adapt(model, {"q_proj", "up_proj"}).items():
        _, _, index, part = name.split(".", 3)
        group = f"transformer.layers.{index}" if int(index) < 2 else "transformer.extra_heads.0"
        lora[f"{group}.{META[part]}.lora_A"] = a
        lora[f"{group}.{META[part]}.lora_B"] = (interleaved(b, 8) if part == "self_attn.q_proj" else b).contiguous()
    heads = {"transformer.extra_heads.0.feed_forward.w3.linear.weight": model.model.layers[2].mlp.up_proj.weight * 1.5}
    file = save(tmp_path / "a.pt", checkpoint_type="lora", lora_state_dict=lora, value_head_state_dict={},
                extra_heads_state_dict=heads if trains_heads else {}, lora_config={"rank": RANK, "alpha": ALPHA})
    result = bring(wmtp, file, tmp_path / "out", "--base-model", tmp_path / "base")
    assert (result["kind"], result["merged"]) == (("model", True) if trains_heads else ("adapter", False))
    assert ("mtp_heads.safetensors" if trains_heads else "adapter_mtp_heads.safetensors") in result["files"]
    before = score(wmtp, file, rows_file, "--base-model", tmp_path / "base")
    after = score(wmtp, tmp_path / "out", rows_file)
    if not trains_heads:
        assert before == after
    for ours, theirs in zip(after, before, strict=True):
        for values, expected in zip(ours.get("nll", []), theirs.get("nll", []), strict=True):
            within(max(abs(a - b) for a, b in zip(values, expected) if a is not None), 50 * through_a_model())
    if trains_heads:
        error = wmtp.error("checkpoint", "export", file, "--format", "peft", "--base-model", tmp_path / "base", "--out",
                           tmp_path / "peft", code=78)
        assert "extra heads" in error["message"] and "--merge-lora --keep-mtp" in error["hint"]


# ---- critics ----

def test_a_critic_with_its_value_head(wmtp, place):  # noqa: F811
    critic = Critic(backbone_of(place, 3), mlp_head(32))
    save(place / "full.pt", checkpoint_type="full", backbone_state_dict=critic.backbone.state_dict(),
         value_head_state_dict=critic.value_head.state_dict(), config={"training": {"value_head_type": "mlp"}})
    result = bring(wmtp, place / "full.pt", place / "critic", "--base-model", place / "base")
    assert result["kind"] == "critic" and "value_head.safetensors" in result["files"] and "tokenizer.json" in result["files"]
    check_values(wmtp, place, critic, "from_folder", checkpoint_path="critic")


def test_a_critic_of_adapters(wmtp, place):  # noqa: F811
    backbone = AutoModelForCausalLM.from_pretrained(place / "base").model.eval()
    adapters = adapt(backbone, {"q_proj", "gate_proj"})
    critic = Critic(backbone, mlp_head(32))
    lora_file(place / "lora.pt", adapters, value_head_state_dict=critic.value_head.state_dict(),
              config={"training": {"value_head_type": "mlp"}})
    text = wmtp.run("checkpoint", "import", "lora.pt", "--out", "adapted", cwd=place).stdout
    assert "adapted: critic of lora.pt, fp32: " in text and "left out: epoch, train_metrics, val_metrics\n" in text
    assert f"use it as models.value_model.checkpoint_path: {place}/adapted\n" in text
    check_values(wmtp, place, critic, "from_adapter", checkpoint_path="adapted", base_model_path="base")


# ---- what cannot be told ----

def bad_files(folder):
    """file -> exit code, pieces of the message."""
    model = make_model("llama grouped")
    state = model.state_dict()
    yield "gone.pt", 78, ["there is no file", "gone.pt"]
    yield "base", 78, ["is no file of torch.save"]
    save(folder / "optimizer.pt", optimizer_state_dict={"state": {0: {"exp_avg": torch.zeros(3, 3)}}, "param_groups": []})
    yield "optimizer.pt", 78, ["optimizer.pt: none of its keys", "epoch, train_metrics, val_metrics, optimizer_state_dict"]
    save(folder / "unknown.pt", net=state)
    yield "unknown.pt", 78, [f"net ({len(state)} tensors)"]
    save(folder / "second.pt", model_state_dict=state, ema_state_dict=state, rng_state=torch.zeros(9, dtype=torch.uint8))
    yield "second.pt", 78, ["keys that wmtp does not know: ema_state_dict"]
    wide = make_model("llama grouped", hidden_size=64).state_dict()
    save(folder / "wide.pt", model_state_dict=wide)
    yield "wide.pt", 78, ["model.embed_tokens.weight is [96, 64], expected [96, 32]"]
    save(folder / "part.pt", model_state_dict={k: v for k, v in state.items() if "layers.2.mlp" not in k})
    yield "part.pt", 78, ["part.pt: the weights do not fit", "3 missing: model.layers.2.mlp.gate_proj.weight [48, 32]"]
    lora_file(folder / "alpha.pt", adapt(model, {"q_proj"}), lora_config={"rank": RANK, "alpha": -1.0})
    yield "alpha.pt", 78, ["alpha.pt: lora_config.alpha is -1, must be a positive number"]
    lora_file(folder / "rank.pt", adapt(model, {"q_proj"}), lora_config={"rank": 7, "alpha": 8.0})
    yield "rank.pt", 78, ["lora_A.weight is [4, 32], expected [7, 32]"]
    archive(folder / "hostile.pt", program(glob("os", "system") + touch(folder / "ran") + b"R"))
    yield "hostile.pt", 65, ["os.system"]
    whole = save(folder / "cut.pt", model_state_dict=state).read_bytes()
    (folder / "cut.pt").write_bytes(whole[:len(whole) // 2])
    yield "cut.pt", 65, ["cut.pt"]


def test_bad_files_are_refused_and_leave_nothing(wmtp, tmp_path):
    make_model("llama grouped").save_pretrained(tmp_path / "base")
    for file, code, pieces in list(bad_files(tmp_path)):
        before = sorted(os.listdir(tmp_path))
        error = wmtp.error("checkpoint", "import", tmp_path / file, "--base-model", tmp_path / "base", "--out",
                           tmp_path / "out", code=code)
        for piece in pieces:
            assert piece in error["message"], (file, error)
        assert sorted(os.listdir(tmp_path)) == before, file
    good = save(tmp_path / "good.pt", model_state_dict=make_model("llama grouped").state_dict())
    bring(wmtp, good, tmp_path / "out", "--base-model", tmp_path / "base")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    wmtp.error("checkpoint", "import", good, "--base-model", tmp_path / "base", "--out", tmp_path / "mine", code=78)
    assert os.listdir(tmp_path / "mine") == ["notes.txt"]
