"""Adapters whose modules are not all alike: layers, patterns, ranks and alphas of single modules, as PEFT reads them."""
import json

import pytest
import torch
from model_cases import check_scores, logits_of, random_rows, score, write_rows
from peft import PeftModel
from safetensors.torch import load_file, save_file
from test_peft import ATTENTION, SEVEN, adapted, base_model
from tolerance import near, through_a_model

CASES = {
    "one layer": dict(r=3, target_modules=["q_proj", "up_proj"], layers_to_transform=1),
    "some layers": dict(r=3, target_modules=SEVEN, layers_to_transform=[0, 2], layers_pattern="layers"),
    "pattern": dict(r=4, target_modules=r"model\.layers\.[02]\.(self_attn\.(q|v)_proj|mlp\.up_proj)"),
    "ranks": dict(r=4, lora_alpha=6, target_modules=SEVEN, rank_pattern={"q_proj": 2, r"layers\.1\.mlp\.down_proj": 5}),
    "alphas": dict(r=4, lora_alpha=6, target_modules=ATTENTION, use_rslora=True,
                   alpha_pattern={r"^model\.layers\.0\..*": 20, "v_proj": 2.5, "proj": 100}),
    "all at once": dict(r=4, target_modules=SEVEN, layers_to_transform=[1, 2], rank_pattern={"layers.2.mlp.*": 1},
                        alpha_pattern={"(gate|up)_proj": 3}, exclude_modules=["model.layers.1.self_attn.q_proj"]),
    "excluded by pattern": dict(r=2, target_modules="all-linear", exclude_modules=r".*\.(0|2)\.mlp\..*"),
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_numbers_and_files_are_pefts(wmtp, tmp_path, options):
    base, theirs, ours = (tmp_path / name for name in ("base", "theirs", "ours"))
    adapted(base_model("llama", base), **options).save_pretrained(theirs)
    model = PeftModel.from_pretrained(base_model("llama", base), theirs).eval()
    rows = random_rows((16, 5))
    want = [logits_of(model, row) for row in rows]
    # Written again, PEFT has the same model; the export holds its own logits against those of the source.
    assert wmtp.json("checkpoint", "export", theirs, "--base-model", base, "--format", "peft", "--out", ours)["verified"]
    again = PeftModel.from_pretrained(base_model("llama", tmp_path / "again"), ours).eval()
    assert all(torch.equal(logits_of(again, row), logits) for row, logits in zip(rows, want))
    before, after = (load_file(folder / "adapter_model.safetensors") for folder in (theirs, ours))
    assert before.keys() == after.keys()
    # Merged.
    wmtp.run("checkpoint", "merge-lora", theirs, "--base-model", base, "--out", tmp_path / "merged")
    merged = load_file(tmp_path / "merged/model.safetensors")
    plain = load_file(base / "model.safetensors")
    state = model.merge_and_unload().state_dict()
    for name, value in merged.items():
        near(value, state[name], rel=1e-6, abs=1e-6, what=name)
        assert torch.equal(value, plain[name]) == (f"base_model.model.{name.removesuffix('.weight')}.lora_A.weight" not in before)


def test_scores_are_pefts(wmtp, tmp_path):
    adapted(base_model("llama", tmp_path / "base"), **CASES["all at once"]).save_pretrained(tmp_path / "a")
    model = PeftModel.from_pretrained(base_model("llama", tmp_path / "again"), tmp_path / "a").eval()
    rows = random_rows((16, 5))
    data = write_rows(tmp_path / "rows.jsonl", rows)
    want = [logits_of(model, row) for row in rows]
    check_scores(score(wmtp, tmp_path / "base", data, "--adapter", tmp_path / "a"), rows, [want])


def test_a_run_starts_from_the_merged_model(wmtp, tmp_path):
    base, theirs = tmp_path / "base", tmp_path / "theirs"
    options = dict(r=4, lora_alpha=6, target_modules=ATTENTION, layers_to_transform=[0, 2], rank_pattern={"q_proj": 2},
                   alpha_pattern={"layers.2.*": 20})
    adapted(base_model("llama", base, vocab_size=512), **options).save_pretrained(theirs)
    config = json.loads((theirs / "adapter_config.json").read_text())
    (theirs / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(base)}))
    wmtp.run("data", "demo", "--out", tmp_path / "data", "--rows", 20, "--seed", 3)
    (tmp_path / "run.yaml").write_text(json.dumps({
        "experiment": {"name": "t", "stage": "baseline"},
        "models": {"policy": {"path": str(theirs), "name": "t", "tokenizer_path": str(tmp_path / "data"), "dtype": "fp32"}},
        "dataset": {"train": str(tmp_path / "data/train.jsonl"), "max_length": 64},
        "training": {"batch_size": 1, "learning_rate": 1e-30, "max_steps": 1},
        "checkpoint": {"save_final": True, "save_best": False, "export_on_finish": "hf"},
        "runtime": {"device": "cpu", "cache_dir": str(tmp_path / "cache"), "threads": 1}}))
    wmtp.run("train", "--config", tmp_path / "run.yaml", "--defaults", "none", "--run-dir", tmp_path / "run")
    model = PeftModel.from_pretrained(base_model("llama", base, vocab_size=512), theirs).eval()
    state = model.merge_and_unload().state_dict()
    [trained] = (tmp_path / "run").rglob("model.safetensors")
    for name, value in load_file(trained).items():
        near(value.float(), state[name], rel=1e-6, abs=1e-6, what=name)


def test_of_several_keys_the_first_in_the_file_counts(wmtp, tmp_path):
    base = tmp_path / "base"
    adapted(base_model("llama", base), r=4, target_modules=["q_proj"]).save_pretrained(tmp_path / "a")
    config = json.loads((tmp_path / "a/adapter_config.json").read_text())
    rows = random_rows((16,))
    data = write_rows(tmp_path / "rows.jsonl", rows)
    for keys in (["q_proj", "layers.1.self_attn.q_proj"], ["layers.1.self_attn.q_proj", "q_proj"]):
        config["alpha_pattern"] = {key: 4 * len(key) for key in keys}
        (tmp_path / "a/adapter_config.json").write_text(json.dumps(config))
        model = PeftModel.from_pretrained(base_model("llama", tmp_path / "again"), tmp_path / "a").eval()
        check_scores(score(wmtp, base, data, "--adapter", tmp_path / "a"), rows, [[logits_of(model, rows[0])]],
                     through_a_model(adapters=True))


@pytest.mark.parametrize("change, part", [
    (dict(layers_to_transform=[0]), "model.layers.1."),  # tensors of layers that the file says have none
    (dict(target_modules=r".*\.q_proj"), "model.layers.0.self_attn.k_proj"),
    (dict(rank_pattern={"q_proj": 3}), "is [2,"),
    (dict(target_modules=r"(?i).*q_proj"), "'(?i'"),
    (dict(target_modules=r".*\.c_attn"), "target_modules"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_files_that_contradict_their_tensors_are_refused(wmtp, tmp_path, change, part):
    adapted(base_model("llama", tmp_path / "base"), r=2, target_modules=ATTENTION).save_pretrained(tmp_path / "a")
    config = json.loads((tmp_path / "a/adapter_config.json").read_text())
    (tmp_path / "a/adapter_config.json").write_text(json.dumps({**config, **change}))
    error = wmtp.error("checkpoint", "merge-lora", tmp_path / "a", "--base-model", tmp_path / "base", "--out",
                       tmp_path / "ours", code=78)
    assert part in error["message"]


def test_missing_tensors_are_named(wmtp, tmp_path):
    options = dict(r=2, target_modules=ATTENTION, layers_to_transform=[0, 1])
    adapted(base_model("llama", tmp_path / "base"), **options).save_pretrained(tmp_path / "a")
    tensors = load_file(tmp_path / "a/adapter_model.safetensors")
    lost = [name for name in tensors if ".layers.1.self_attn.o_proj." in name]
    save_file({name: value for name, value in tensors.items() if name not in lost}, tmp_path / "a/adapter_model.safetensors",
              metadata={"format": "pt"})
    error = wmtp.error("checkpoint", "merge-lora", tmp_path / "a", "--base-model", tmp_path / "base", "--out",
                       tmp_path / "ours", code=78)
    assert "model.layers.1.self_attn.o_proj.lora_A.weight" in error["message"]
