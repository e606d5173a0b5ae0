"""What a finished run leaves for other tools: models that stop where they learned to, adapters that find their base, and names
that last."""
import json
import os
import shutil

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from tiny_runs import TinyRuns
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

WORD, END = 7, 1  # the second is the demo tokenizer's </s>


def ending_model(folder, data):
    """Answers WORD to anything, and END to WORD. Its config.json names transformers' own ids, 1 and 2, as a preset does."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=512, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                         num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding, out = model.model.embed_tokens.weight, model.lm_head.weight
        embedding[:, 0], embedding[:, 1] = 1, 0
        embedding[WORD, 0], embedding[WORD, 1] = 0, 1
        out[WORD, 0], out[END, 1] = 9, 9
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(data / name, folder)
    return folder


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """`full` trains all weights of the model in `base`, `lora` adapters upon what that left."""
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("runs"), steps=2, every=1, lora=False)
    made.base_folder = ending_model(made.folder / "base", made.folder / "data")
    made.config.write_text(made.config.read_text().replace("    name: tiny\n", ""))
    made.plain = dict(models__policy__init="pretrained", models__policy__params={}, models__policy__tokenizer_path=None,
                      training__learning_rate=1e-7, training__eval_every_steps=2, checkpoint__export_on_finish="auto")
    made.run("full", models__policy__path=str(made.base_folder), **made.plain)
    made.run("lora", training__use_lora=True, models__policy__path=str(made.folder / "full/final"), **made.plain)
    return made


def generated(model):
    ids = torch.tensor([[0, 20, 30]])
    return model.generate(ids, max_new_tokens=8, do_sample=False)[0, 3:].tolist()


# ---- where generation stops ----

def test_what_a_run_leaves_stops_where_its_rows_ended(runs):
    final = runs.folder / "full/final"
    assert generated(AutoModelForCausalLM.from_pretrained(final)) == [WORD, END]
    for found in (AutoConfig.from_pretrained(final), GenerationConfig.from_pretrained(final)):
        assert (found.bos_token_id, found.eos_token_id, found.pad_token_id) == (0, END, 2)
    checkpoint = json.loads((runs.folder / "full/checkpoints/base-2steps/config.json").read_text())
    assert checkpoint["eos_token_id"] == END


def test_a_preset_s_ids_are_the_last_resort(wmtp, tmp_path):
    made = TinyRuns(wmtp, tmp_path, steps=1, every=1, lora=False)
    made.run("run", checkpoint__export_on_finish="hf")
    config = json.loads((tmp_path / "run/final/config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (0, END, 2)
    wmtp.run("checkpoint", "export", "micro", "--format", "hf", "--no-verify", "--out", tmp_path / "preset")
    config = json.loads((tmp_path / "preset/config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (1, 2, None)


@pytest.mark.parametrize("theirs,changed", [
    ({"bos_token_id": 5, "eos_token_id": [6, END], "pad_token_id": 8}, {}),
    ({"bos_token_id": 5, "pad_token_id": None}, {"eos_token_id": END, "pad_token_id": 2}),
    ({"eos_token_id": [6]}, {"bos_token_id": 0, "pad_token_id": 2}),
])
def test_the_base_s_generation_settings_are_kept(wmtp, runs, tmp_path, theirs, changed):
    base = tmp_path / "base"
    shutil.copytree(runs.base_folder, base)
    text = json.dumps({"temperature": 0.6, **theirs, "do_sample": True, "top_k": 20})  # in nobody's order
    (base / "generation_config.json").write_text(text)
    done = wmtp.run("checkpoint", "export", base, "--format", "hf", "--out", tmp_path / "out")
    kept = (tmp_path / "out/generation_config.json").read_text()
    assert json.loads(kept) == {**json.loads(text), **changed}
    assert changed or kept == text
    config = json.loads((tmp_path / "out/config.json").read_text())
    for key in ("bos_token_id", "pad_token_id"):
        assert config[key] == json.loads(kept)[key]
    eos = json.loads(kept)["eos_token_id"]
    assert config["eos_token_id"] == (eos[0] if eos == [6] else eos)
    assert ("does not stop at token 1" in done.stderr) == (eos == [6])


def test_a_run_carries_them_from_base_to_export(wmtp, runs, tmp_path):
    base = runs.folder / "settings"
    shutil.copytree(runs.base_folder, base)
    settings = '{"temperature": 0.6, "eos_token_id": [6, 1], "bos_token_id": 0, "pad_token_id": 2}'
    (base / "generation_config.json").write_text(settings)
    runs.run("set", models__policy__path=str(base), **{**runs.plain, "checkpoint__export_on_finish": "none"})
    checkpoint = runs.folder / "set/checkpoints/settings-2steps"
    for i, source in enumerate((checkpoint, tmp_path / "0")):  # the checkpoint, then what was made of it
        wmtp.run("checkpoint", "export", source, "--format", "hf", "--out", tmp_path / str(i))
        assert (tmp_path / str(i) / "generation_config.json").read_text() == settings
    assert json.loads((checkpoint / "config.json").read_text())["eos_token_id"] == [6, 1]
    (base / "generation_config.json").write_text(settings[:-1])
    assert "generation_config.json" in wmtp.error("checkpoint", "export", base, "--format", "hf", "--out", tmp_path / "broken",
                                                  code=65)["message"]


# ---- adapters ----

def base_named_in(folder):
    return json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]


def test_an_adapter_finds_its_base_beside_it(wmtp, runs, tmp_path, monkeypatch):
    final = runs.folder / "lora/final"
    assert base_named_in(final) == "../../full/final"
    monkeypatch.chdir(final)
    model = AutoPeftModelForCausalLM.from_pretrained(".")
    assert generated(model) == [WORD, END]
    assert AutoTokenizer.from_pretrained(".").eos_token_id == END
    moved = tmp_path / "elsewhere"
    for name in ("full/final", "lora/final"):
        shutil.copytree(runs.folder / name, moved / name)
    assert wmtp.json("checkpoint", "merge-lora", moved / "lora/final", "--out", tmp_path / "merged")["verified"]


def test_an_adapter_names_other_bases_by_their_place(wmtp, runs, tmp_path, monkeypatch):
    out = tmp_path / "adapter"
    wmtp.run("checkpoint", "export", runs.folder / "lora", "--format", "peft", "--out", out)
    assert base_named_in(out) == str(runs.folder / "full/final")
    plain = AutoModelForCausalLM.from_pretrained(runs.folder / "full/final")
    assert generated(PeftModel.from_pretrained(plain, out)) == [WORD, END]
    monkeypatch.chdir(runs.folder)  # a relative path is not what others would understand
    wmtp.run("checkpoint", "export", "lora/checkpoints/base-2steps", "--base-model", "full", "--format", "peft", "--out", out)
    assert base_named_in(out) == str(runs.folder / "full/final")


def test_an_adapter_names_a_base_of_the_hub_as_the_hub_does(wmtp, runs, tmp_path):
    cache = tmp_path / "hub/models--acme--tiny-1B"
    for revision in ("aaa", "bbb"):
        shutil.copytree(runs.base_folder, cache / "snapshots" / revision)
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("bbb\n")
    env = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub")}
    for base, name in (("acme/tiny-1B", "acme/tiny-1B"), (cache / "snapshots/bbb", "acme/tiny-1B"),
                       (cache / "snapshots/aaa", str(cache / "snapshots/aaa"))):
        wmtp.run("checkpoint", "export", runs.folder / "lora/final", "--base-model", base, "--format", "peft", "--out",
                 tmp_path / "out", env=env)
        assert base_named_in(tmp_path / "out") == name


def test_an_adapter_brings_its_tokenizer(wmtp, runs, tmp_path):
    final = runs.folder / "lora/final"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (final / name).read_bytes() == (runs.base_folder / name).read_bytes()
    bare = tmp_path / "bare"
    shutil.copytree(runs.folder / "full/final", bare, ignore=shutil.ignore_patterns("tokenizer*"))
    wmtp.run("checkpoint", "merge-lora", final, "--base-model", bare, "--out", tmp_path / "out")
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (runs.base_folder / "tokenizer.json").read_bytes()


# ---- names ----

def checkpoint_names(runs, name):
    return sorted(path.name for path in runs.save_dir(name).iterdir() if not path.name.endswith(".lock"))


@pytest.mark.parametrize("place", ["full/final/", "full", "full/checkpoints/base-latest", "lora/final"])
def test_a_run_goes_by_the_name_of_the_run_it_began_with(runs, place):
    options = {**runs.plain, "training__max_steps": 1, "checkpoint__export_on_finish": "none"}
    runs.run("next", "--resume", "never", models__policy__path=f"{runs.folder}/{place}", **options)
    names = checkpoint_names(runs, "next")
    assert "base-1steps" in names and {"base-latest", "base-final"} <= set(names), names
    shutil.rmtree(runs.folder / "next")


def test_exports_of_older_versions_have_their_checkpoints_name(runs, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(runs.folder / "full", old)
    mark = json.loads((old / "final/wmtp_export.json").read_text())
    assert mark.pop("model") == "base"
    (old / "final/wmtp_export.json").write_text(json.dumps(mark))
    options = {**runs.plain, "training__max_steps": 1, "checkpoint__export_on_finish": "none"}
    runs.run("next", models__policy__path=f"{old}/final", **options)
    assert "base-1steps" in checkpoint_names(runs, "next")
    runs.run("named", models__policy__path=f"{old}/final", models__policy__name="mine", **options)
    assert "mine-1steps" in checkpoint_names(runs, "named")
    shutil.rmtree(old / "checkpoints")
    runs.run("alone", models__policy__path=f"{old}/final", **options)
    assert "final-1steps" in checkpoint_names(runs, "alone")
