"""LoRA adapters against the PEFT package, both ways: names, shapes, values, scale, and the logits of the adapted model."""
import json
import os
import subprocess

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
SEVEN = [*ATTENTION, "gate_proj", "up_proj", "down_proj"]
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)


def base_model(kind, folder):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES)) if kind == "llama" else \
        Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=True))
    model = model.float().eval()
    model.save_pretrained(folder)
    return model


def adapted(model, **options):
    """With random adapters, B not zero."""
    model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options)).eval()
    torch.manual_seed(1)
    for name, param in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(param, std=0.2)
    return model


def logits_of(model):
    tokens = torch.tensor([[(7 * i + 3) % SIZES["vocab_size"] for i in range(16)]])
    with torch.no_grad():
        return model(tokens).logits[0].float()


@pytest.fixture
def through_wmtp(wmtp):
    """Reads an adapter and writes it again; returns the logits of base + adapter."""
    binary = wmtp.binary.parent / "training_test"
    if not binary.exists():
        pytest.fail(f"no {binary}: build the tests first")

    def run(base, source, target, check=True):
        env = {**os.environ, "WMTP_PARITY_MODEL": str(base), "WMTP_PARITY_IN": str(source),
               "WMTP_PARITY_OUT": str(target)}
        done = subprocess.run([str(binary), "--gtest_filter=AdapterSeam.*"], env=env, capture_output=True, text=True)
        assert (done.returncode == 0) == check, done.stdout + done.stderr
        return load_file(target / "probe.safetensors")["logits"] if check else done.stdout
    return run


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("options", [
    dict(r=8, lora_alpha=16, target_modules=ATTENTION),
    dict(r=4, lora_alpha=6, target_modules=SEVEN, use_rslora=True),
    dict(r=3, lora_alpha=4.5, target_modules="all-linear", lora_dropout=0.1),
    dict(r=2, target_modules=r".*\.(q_proj|down_proj)"),
    dict(r=5, target_modules=["self_attn.v_proj"], init_lora_weights="gaussian"),
], ids=["attention", "rslora", "all-linear", "pattern", "suffix"])
def test_round_trip(through_wmtp, tmp_path, kind, options):
    theirs = adapted(base_model(kind, tmp_path / "base"), **options)
    theirs.save_pretrained(tmp_path / "theirs")
    want = logits_of(theirs)

    got = through_wmtp(tmp_path / "base", tmp_path / "theirs", tmp_path / "ours")
    assert (got - want).abs().max() <= 1e-5 * want.abs().max()

    before, after = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("theirs", "ours"))
    assert before.keys() == after.keys()
    for name in before:
        assert torch.equal(before[name], after[name]), name

    base = base_model(kind, tmp_path / "base2")
    plain = logits_of(base)
    ours = PeftModel.from_pretrained(base, tmp_path / "ours").eval()
    assert torch.equal(logits_of(ours), want)
    assert not torch.allclose(plain, want)
    config = ours.peft_config["default"]
    assert config.r == options["r"] and config.lora_alpha == options.get("lora_alpha", 8)
    assert config.use_rslora == options.get("use_rslora", False)
    assert config.lora_dropout == options.get("lora_dropout", 0)


def test_config_has_what_other_tools_index(through_wmtp, tmp_path):
    adapted(base_model("llama", tmp_path / "base"), r=2, target_modules=ATTENTION).save_pretrained(tmp_path / "theirs")
    through_wmtp(tmp_path / "base", tmp_path / "theirs", tmp_path / "ours")
    text = (tmp_path / "ours/adapter_config.json").read_text()
    config = json.loads(text)
    assert text == json.dumps(config, indent=2, sort_keys=True) + "\n"
    assert isinstance(config["base_model_name_or_path"], str)
    assert sorted(config["target_modules"]) == sorted(ATTENTION)
    assert "runtime_config" not in config


@pytest.mark.parametrize("options, part", [
    (dict(use_dora=True), "use_dora"),
    (dict(bias="lora_only"), "bias"),
    (dict(rank_pattern={"q_proj": 4}), "rank_pattern"),
    (dict(alpha_pattern={"q_proj": 4}), "alpha_pattern"),
    (dict(modules_to_save=["lm_head"]), "modules_to_save"),
    (dict(lora_bias=True), "lora_bias"),
    (dict(layers_to_transform=[0]), "layers_to_transform"),
    (dict(init_lora_weights="olora"), "init_lora_weights"),
    (dict(target_modules=["q_proj", "lm_head"]), "lm_head"),
    (dict(target_modules=["q_proj", "embed_tokens"]), "embed"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_refusals(through_wmtp, tmp_path, options, part):
    options = {"r": 2, "target_modules": ATTENTION, **options}
    adapted(base_model("llama", tmp_path / "base"), **options).save_pretrained(tmp_path / "theirs")
    output = through_wmtp(tmp_path / "base", tmp_path / "theirs", tmp_path / "ours", check=False)
    assert part in output
    assert not (tmp_path / "ours").exists()
