"""LoRA against the PEFT package, both ways: names, values, scale, logits, gradients, merging, and what is refused."""
import json
import math
import random
import re
import subprocess

import pytest
import torch
from model_cases import check_scores, close_in_norm, logits_of, make_model, peer, peer_names, random_rows, score, write_rows
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tolerance import near, through_a_model, within

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
SEVEN = [*ATTENTION, "gate_proj", "up_proj", "down_proj"]
KINDS = {"llama": "llama grouped", "qwen3": "qwen3 tied"}


def random_subsets(count):
    draw = random.Random(5)
    return [sorted(draw.sample(SEVEN, draw.randint(2, 5)), key=SEVEN.index) for _ in range(count)]


SUBSETS = [*([name] for name in SEVEN), ATTENTION, SEVEN, *random_subsets(3)]


def base_model(kind, folder, **changes):
    model = make_model(KINDS[kind], **changes)
    model.save_pretrained(folder)
    return model


def adapted(model, std=0.2, **options):
    """With random adapters, B not zero."""
    model = get_peft_model(model, LoraConfig(**{"task_type": "CAUSAL_LM", **options})).eval()
    torch.manual_seed(1)
    for name, param in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(param, std=std)
    return model


def our_name(name):
    return name.removeprefix("base_model.model.").replace(".default", "")


@pytest.fixture
def lora_probe(wmtp, tmp_path):
    """Loss, gradients by name and logits by head of a base with an adapter upon it."""
    def run(base, adapter, rows, dtype="fp32"):
        (tmp_path / "ids.json").write_text(json.dumps(rows))
        out = tmp_path / "probe"
        done = subprocess.run([wmtp.binary.parent / "wmtp_model_probe", "--model", base, "--adapter", adapter, "--ids",
                               tmp_path / "ids.json", "--dtype", dtype, "--logits", "--out", out],
                              capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads((out / "probe.json").read_text())["loss"], load_file(out / "grads.safetensors"), \
            load_file(out / "logits.safetensors")
    return run


# ---- the numbers ----

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("targets", SUBSETS, ids="+".join)
def test_logits_and_gradients(lora_probe, tmp_path, kind, targets):
    model = adapted(base_model(kind, tmp_path / "base"), r=3, lora_alpha=5, target_modules=targets)
    model.save_pretrained(tmp_path / "adapter")
    rows = random_rows((24, 9))
    loss, grads, logits = lora_probe(tmp_path / "base", tmp_path / "adapter", rows)
    expected = torch.cat([model(torch.tensor([row])).logits[0][:-1] for row in rows])
    bound = through_a_model(adapters=True)
    within((logits["head0"] - expected).abs().max(), bound * expected.abs().max())
    theirs = torch.nn.functional.cross_entropy(expected, torch.tensor([token for row in rows for token in row[1:]]))
    near(loss, theirs.item(), rel=bound)
    theirs.backward()
    close_in_norm(grads, {our_name(name): parameter.grad for name, parameter in model.named_parameters()
                          if parameter.requires_grad}, bound)


SHAPE = peer.Shape(dim=32, blocks=4, heads=4, kv=2, head_dim=8, ffn=48, vocab=96, n_future=2, theta=1e4, eps=1e-5)
SHORT = {"q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo", "gate_proj": "w1", "up_proj": "w3",
         "down_proj": "w2"}


def rotate64(x, cos, sin):
    a, b = x.chunk(2, -1)
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def save_mtp(model, folder):
    """The peer's base and, apart, its adapters as wmtp's folders."""
    names = peer_names(SHAPE)
    base, adapters = {}, {}
    for name, value in model.state_dict().items():
        plain = name.replace(".base_layer", "")
        if match := re.fullmatch(r"(.*)\.(lora_[AB])\.default\.weight", name):
            adapters[f"base_model.model.{names[match[1] + '.weight'].removesuffix('.weight')}.{match[2]}.weight"] = value.clone()
        else:
            base[names[plain]] = value.clone()
    (folder / "adapter").mkdir(parents=True)
    for path, tensors, extra in (("model.safetensors", base, False), ("mtp_heads.safetensors", base, True),
                                 ("adapter/adapter_model.safetensors", adapters, False),
                                 ("adapter/adapter_mtp_heads.safetensors", adapters, True)):
        save_file({name: value for name, value in tensors.items() if ("extra_heads" in name) == extra}, folder / path,
                  metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
        "rope_theta": 1e4, "wmtp": {"n_future_tokens": 2, "mtp_file": "mtp_heads.safetensors"}}))
    return adapters


@pytest.mark.parametrize("targets", [ATTENTION, SEVEN, *random_subsets(1)], ids="+".join)
def test_gradients_in_double_precision(lora_probe, tmp_path, monkeypatch, targets):
    monkeypatch.setattr(peer, "rotate", rotate64)
    torch.manual_seed(5)
    model = peer.MtpModel(SHAPE, False).double()
    model.token_loss = lambda logits, labels: torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    get_peft_model(model, LoraConfig(r=3, lora_alpha=4, target_modules=[SHORT[name] for name in targets]),
                   autocast_adapter_dtype=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.double()
            parameter.normal_(std=0.15) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    adapters = save_mtp(model, tmp_path / "mtp")
    config = {"peft_type": "LORA", "r": 3, "lora_alpha": 4, "target_modules": targets}
    (tmp_path / "mtp/adapter/adapter_config.json").write_text(json.dumps(config))
    tokens = torch.tensor(random_rows((20, 20)))
    loss, grads, _ = lora_probe(tmp_path / "mtp", tmp_path / "mtp/adapter", tokens.tolist(), "fp64")
    inv_freq = (1.0 / SHAPE.theta ** (torch.arange(0, 8, 2).float() / 8)).double()  # as stored: rounded to fp32
    angles = torch.outer(torch.arange(20).double(), inv_freq)
    theirs = model(tokens, tokens, angles.cos(), angles.sin())
    bound = through_a_model(SHAPE.blocks, double=True, adapters=True)
    near(loss, theirs.item(), rel=bound)
    theirs.backward()
    names = peer_names(SHAPE)
    expected = {}
    for name, parameter in model.named_parameters():
        if match := re.fullmatch(r"(.*)\.(lora_[AB])\.default\.weight", name):
            expected[f"{names[match[1] + '.weight'].removesuffix('.weight')}.{match[2]}.weight"] = parameter.grad
    assert len(expected) == len(adapters) == 4 * 2 * len(targets)
    close_in_norm(grads, expected, bound)


# ---- files, both ways ----

@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [
    dict(r=8, lora_alpha=16, target_modules=ATTENTION),
    dict(r=4, lora_alpha=6, target_modules=SEVEN, use_rslora=True),
    dict(r=3, lora_alpha=4.5, target_modules="all-linear", lora_dropout=0.1),
    dict(r=2, target_modules=r".*\.(q_proj|down_proj)"),
    dict(r=5, target_modules=["self_attn.v_proj"], init_lora_weights="gaussian"),
], ids=["attention", "rslora", "all-linear", "pattern", "suffix"])
def test_round_trip(wmtp, tmp_path, kind, options):
    base, theirs, ours = (tmp_path / name for name in ("base", "theirs", "ours"))
    model = adapted(base_model(kind, base), **options)
    model.save_pretrained(theirs)
    rows = random_rows((16, 5))
    want = [logits_of(model, row) for row in rows]
    result = wmtp.json("checkpoint", "export", theirs, "--base-model", base, "--format", "peft", "--out", ours)
    assert result["verified"] and result["logit_difference"] == 0  # the same numbers, read back
    data = write_rows(tmp_path / "rows.jsonl", rows)
    check_scores(score(wmtp, base, data, "--adapter", theirs), rows, [want])
    check_scores(score(wmtp, ours, data), rows, [want])  # its configuration names the base

    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (theirs, ours))
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(before[name], after[name]), name

    plain = base_model(kind, tmp_path / "again")
    unlike = logits_of(plain, rows[0])
    again = PeftModel.from_pretrained(plain, ours).eval()
    assert all(torch.equal(logits_of(again, row), logits) for row, logits in zip(rows, want))
    assert not torch.allclose(unlike, want[0])
    config = again.peft_config["default"]
    assert config.r == options["r"] and config.lora_alpha == options.get("lora_alpha", 8)
    assert config.use_rslora == options.get("use_rslora", False)
    assert config.lora_dropout == options.get("lora_dropout", 0)
    text = (ours / "adapter_config.json").read_text()
    config = json.loads(text)
    assert text == json.dumps(config, indent=2, sort_keys=True) + "\n"
    assert config["base_model_name_or_path"] == str(base) and "runtime_config" not in config


@pytest.mark.parametrize("kind", KINDS)
def test_merged_equals_unmerged(wmtp, tmp_path, kind):
    model = adapted(base_model(kind, tmp_path / "base"), r=4, lora_alpha=6, target_modules=SEVEN, use_rslora=True)
    model.save_pretrained(tmp_path / "adapter")
    row = random_rows((20,))[0]
    want = logits_of(model, row)
    result = wmtp.json("checkpoint", "merge-lora", tmp_path / "adapter", "--base-model", tmp_path / "base", "--out",
                       tmp_path / "merged")
    assert result["verified"]
    within(result["logit_difference"], through_a_model(adapters=True))
    wmtp.run("checkpoint", "export", tmp_path / "adapter", "--base-model", tmp_path / "base", "--out", tmp_path / "half",
             "--format", "hf", "--merge-lora", "--dtype", "bf16")
    got = type(model.get_base_model()).from_pretrained(tmp_path / "merged", dtype=torch.float32).eval()
    within((logits_of(got, row) - want).abs().max(), through_a_model(adapters=True) * want.abs().max())
    half = load_file(tmp_path / "half/model.safetensors")
    adapters = load_file(tmp_path / "adapter/adapter_model.safetensors")
    for name, weight in load_file(tmp_path / "base/model.safetensors").items():
        module = f"base_model.model.{name.removesuffix('.weight')}"
        exact = weight.double()
        if f"{module}.lora_A.weight" in adapters:
            a, b = (adapters[f"{module}.lora_{part}.weight"].double() for part in "AB")
            exact = exact + 6 / math.sqrt(4) * b @ a
        near(got.state_dict()[name].double(), exact, rel=1e-6, abs=1e-6, what=name)
        # One rounding: the nearest bf16 of the exact sum, but where fp32 falls on the other side of a tie.
        assert (half[name] == exact.bfloat16()).double().mean() > 0.999, name
        assert torch.allclose(half[name].double(), exact, rtol=2**-8 * 1.001, atol=1e-9), name


def test_inspect_shows_an_adapter(wmtp, tmp_path):
    model = adapted(base_model("llama", tmp_path / "base"), r=2, lora_alpha=7, target_modules=["q_proj", "up_proj"])
    model.save_pretrained(tmp_path / "adapter")
    lines = wmtp.json_lines("checkpoint", "inspect", tmp_path / "adapter", "--tensors")
    adapter = next(line for line in lines if line["type"] == "adapter")
    assert adapter["rank"] == 2 and adapter["alpha"] == 7 and sorted(adapter["targets"]) == ["q_proj", "up_proj"]
    names = {line["name"] for line in lines if line["type"] == "tensor"}
    assert names == load_file(tmp_path / "adapter/adapter_model.safetensors").keys()
    assert "rank 2" in wmtp.run("checkpoint", "inspect", tmp_path / "adapter").stdout


# ---- refusals ----

def test_the_base_is_never_the_target(wmtp, tmp_path):
    adapted(base_model("llama", tmp_path / "base"), r=2, target_modules=ATTENTION).save_pretrained(tmp_path / "theirs")
    wmtp.run("checkpoint", "export", tmp_path / "base", "--format", "hf", "--out", tmp_path / "ours")
    before = sorted(path.stat().st_ino for path in (tmp_path / "ours").iterdir())
    error = wmtp.error("checkpoint", "merge-lora", tmp_path / "theirs", "--base-model", tmp_path / "ours", "--out",
                       tmp_path / "ours", code=78)
    assert "made from" in error["message"]
    assert sorted(path.stat().st_ino for path in (tmp_path / "ours").iterdir()) == before


@pytest.mark.parametrize("options, part", [
    (dict(use_dora=True), "use_dora"),
    (dict(bias="lora_only"), "bias"),
    (dict(modules_to_save=["lm_head"]), "modules_to_save"),
    (dict(lora_bias=True), "lora_bias"),
    (dict(init_lora_weights="olora"), "init_lora_weights"),
    (dict(trainable_token_indices=[1, 2]), "trainable_token_indices"),
    (dict(target_modules=["q_proj", "lm_head"]), "lm_head"),
    (dict(target_modules=["q_proj", "embed_tokens"]), "embed"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_refusals(wmtp, tmp_path, options, part):
    adapted(base_model("llama", tmp_path / "base"), **{"r": 2, "target_modules": ATTENTION, **options}) \
        .save_pretrained(tmp_path / "theirs")
    message = wmtp.error("checkpoint", "merge-lora", tmp_path / "theirs", "--base-model", tmp_path / "base", "--out",
                         tmp_path / "ours", code=78)["message"]
    assert part in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "theirs"]


@pytest.mark.parametrize("change, part", [
    (dict(peft_type="IA3"), 'peft_type "IA3"'), (dict(fan_in_fan_out=True), "fan_in_fan_out"),
    (dict(use_qalora=True), "use_qalora"), (dict(layer_replication=[[0, 1]]), "layer_replication"),
    (dict(target_parameters=["w"]), "target_parameters"), (dict(r=5), "is [2,"), (dict(target_modules=["c_attn"]), "c_attn"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_edited_configurations_are_refused(wmtp, tmp_path, change, part):
    adapted(base_model("llama", tmp_path / "base"), r=2, target_modules=ATTENTION).save_pretrained(tmp_path / "a")
    config = json.loads((tmp_path / "a/adapter_config.json").read_text())
    (tmp_path / "a/adapter_config.json").write_text(json.dumps({**config, **change}))
    data = write_rows(tmp_path / "rows.jsonl", [[1, 2, 3]])
    message = wmtp.error("score", "--model", tmp_path / "base", "--adapter", tmp_path / "a", "--data", data, "--device", "cpu",
                         code=78)["message"]
    assert part in message


def test_a_base_of_another_shape_and_adapters_of_nothing(wmtp, tmp_path):
    adapted(base_model("llama", tmp_path / "base"), r=2, target_modules=ATTENTION).save_pretrained(tmp_path / "a")
    base_model("llama", tmp_path / "wide", hidden_size=64)
    base_model("llama", tmp_path / "deep", num_hidden_layers=4)

    def refusal(base, *words):
        return wmtp.error("checkpoint", "merge-lora", tmp_path / "a", *words, *(["--base-model", base] if base else []),
                          "--out", tmp_path / "out", code=78)
    assert "q_proj.lora_A.weight is [2, 32], expected [2, 64]" in refusal(tmp_path / "wide")["message"]
    assert "8 missing" in refusal(tmp_path / "deep")["message"]
    assert "--base-model" in refusal(None)["hint"]  # PEFT wrote none, or one that is not here
    assert "itself an adapter" in refusal(tmp_path / "a")["message"]
    assert "is no adapter" in wmtp.error("checkpoint", "merge-lora", tmp_path / "base", "--base-model", tmp_path / "wide",
                                         "--out", tmp_path / "out", code=78)["message"]
    tensors = load_file(tmp_path / "a/adapter_model.safetensors")
    save_file({name.replace("model.layers", "transformer.h"): value for name, value in tensors.items()},
              tmp_path / "a/adapter_model.safetensors")
    assert "belong to no block" in refusal(tmp_path / "base")["message"]
    assert not (tmp_path / "out").exists()
