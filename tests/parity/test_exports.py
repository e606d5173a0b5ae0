"""Exports in the tools they are made for: transformers, torch.load, and wmtp itself; replacing, full disks, interruptions."""
import json
import os
import resource
import signal
import subprocess

import pytest
import torch
from model_cases import (as_version_4, check_scores, logits_of, make_model, mtp_logits, peer, peer_names, random_rows,
                         score, write_rows)
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from test_model_folders import meta_state
from tolerance import through_a_model, within
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

ROWS = random_rows((17, 5))


def export(wmtp, source, out, *flags, format="hf"):
    result = wmtp.json("checkpoint", "export", source, "--format", format, "--out", out, *flags)
    assert result["verified"] == ("--no-verify" not in flags)
    assert result["files"] == sorted(os.listdir(out))
    return result


def same_logits(folder, model, tolerance=0.0):
    again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for row in ROWS:
        want = logits_of(model, row)
        within((logits_of(again, row) - want).abs().max(), tolerance * want.abs().max())
    return again


def save(model, folder):
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


# ---- transformers ----

@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("case", ["llama grouped", "llama scaled", "llama wide heads", "qwen3 tied"])
def test_transformers_loads_it(wmtp, tmp_path, case, version):
    model = make_model(case, bos_token_id=3, eos_token_id=[4, 5])
    save(model, tmp_path / "source")
    if version == 4:
        as_version_4(tmp_path / "source")
    out = tmp_path / "out"
    export(wmtp, tmp_path / "source", out)
    again = same_logits(out, model)
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    assert ("lm_head.weight" in load_file(out / "model.safetensors")) == (not model.config.tie_word_embeddings)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (out / name).read_bytes() == (tmp_path / "source" / name).read_bytes()
    config = AutoConfig.from_pretrained(out)
    assert config.eos_token_id == [4, 5] and config.bos_token_id == 3
    assert GenerationConfig.from_pretrained(out).eos_token_id == [4, 5]


def test_its_configuration_suits_transformers_4_too(wmtp, tmp_path):
    model = make_model("llama scaled")
    save(model, tmp_path / "source")
    export(wmtp, tmp_path / "source", tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    rope = config["rope_parameters"]
    assert config["rope_theta"] == rope["rope_theta"] == 5e5 and config["torch_dtype"] == config["dtype"] == "float32"
    assert config["rope_scaling"] == {key: value for key, value in rope.items() if key != "rope_theta"}
    for key in ("rope_parameters", "dtype"):  # what version 4 would not look at
        config.pop(key)
    (tmp_path / "out/config.json").write_text(json.dumps(config))
    same_logits(tmp_path / "out", model)


def test_sharded_files_and_their_index(wmtp, tmp_path):
    model = make_model("llama grouped")
    save(model, tmp_path / "source")
    out = tmp_path / "out"
    export(wmtp, tmp_path / "source", out, "--max-shard-size", "12KB")
    same_logits(out, model)
    text = (out / "model.safetensors.index.json").read_text()
    index = json.loads(text)
    assert text == json.dumps(index, indent=2, sort_keys=True) + "\n"
    assert index["weight_map"].keys() == model.state_dict().keys()
    count = sum(value.numel() for value in model.state_dict().values())
    assert index["metadata"] == {"total_parameters": count, "total_size": 4 * count}
    files = sorted(path.name for path in out.glob("model-*"))
    assert files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))] and len(files) > 3
    for file in files:
        with safe_open(out / file, "pt") as part:
            assert part.metadata() == {"format": "pt"}
            assert {index["weight_map"][name] for name in part.keys()} == {file}
        assert (out / file).stat().st_size < 14000


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_other_types_are_rounded_once(wmtp, tmp_path, dtype):
    model = make_model("llama grouped")
    save(model, tmp_path / "source")
    result = export(wmtp, tmp_path / "source", tmp_path / "out", "--dtype", dtype)
    torch_dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    for name, value in load_file(tmp_path / "out/model.safetensors").items():
        assert torch.equal(value, model.state_dict()[name].to(torch_dtype)), name
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto").dtype == torch_dtype
    assert 0 < result["logit_difference"] < 0.05
    # The default is the model's own type.
    assert export(wmtp, tmp_path / "out", tmp_path / "again")["dtype"] == dtype


# ---- several heads, value heads ----

SHAPE = peer.Shape(dim=32, blocks=6, heads=4, kv=2, head_dim=8, ffn=48, vocab=96, n_future=4, theta=1e4, eps=1e-5)


@pytest.fixture
def mtp(tmp_path):
    """A model with four heads as one .pth of Meta's names would hold it, here under wmtp's."""
    torch.manual_seed(5)
    model = peer.MtpModel(SHAPE, False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.15) if parameter.dim() > 1 else parameter.uniform_(0.5, 1.5)
    names = peer_names(SHAPE)
    folder = tmp_path / "mtp"
    folder.mkdir()
    state = {names[name]: value.clone() for name, value in model.state_dict().items()}
    for file, extra in (("model.safetensors", False), ("mtp_heads.safetensors", True)):
        save_file({name: value for name, value in state.items() if ("extra_heads" in name) == extra}, folder / file)
    torch.manual_seed(6)
    value_head = {"value_head.linear.weight": torch.randn(1, 32), "value_head.linear.bias": torch.randn(1)}
    save_file(value_head, folder / "value_head.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 128,
        "rope_theta": 1e4,
        "wmtp": {"n_future_tokens": 4, "mtp_file": "mtp_heads.safetensors", "value_head": "sigmoid"}}))
    return folder, model, {**state, **value_head}


@pytest.mark.parametrize("kept", [False, True])
def test_four_heads(wmtp, tmp_path, mtp, kept):
    folder, model, state = mtp
    out = tmp_path / "out"
    result = export(wmtp, folder, out, *(["--keep-mtp"] if kept else []))
    again = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32).eval()
    assert again.config.num_hidden_layers == 3
    wanted = [mtp_logits(model, row) for row in ROWS]
    for row, logits in zip(ROWS, wanted):
        within((logits_of(again, row) - logits[0]).abs().max(), through_a_model(SHAPE.blocks) * logits[0].abs().max())
    lines = score(wmtp, out, write_rows(tmp_path / "rows.jsonl", ROWS))
    check_scores(lines, ROWS, [[logits[head] for logits in wanted] for head in range(4 if kept else 1)])
    assert ("mtp_heads.safetensors" in result["files"]) == kept
    config = json.loads((out / "config.json").read_text())
    assert config["wmtp"]["value_head"] == "sigmoid" and ("n_future_tokens" in config["wmtp"]) == kept
    names = {line["name"] for line in wmtp.json_lines("checkpoint", "inspect", out, "--tensors") if line["type"] == "tensor"}
    assert names == {name for name in state if kept or "extra_heads" not in name}
    for name, value in load_file(out / "value_head.safetensors").items():
        assert torch.equal(value, state[name])


# ---- torch.load ----

def test_pt_files(wmtp, tmp_path, mtp):
    folder, model, state = mtp
    out = tmp_path / "out"
    export(wmtp, folder, out, format="pt")
    content = torch.load(out / "checkpoint.pt", weights_only=True)
    assert content.keys() == {"model_state_dict", "total_steps", "start_batch_index"}
    assert content["total_steps"] == 0 and content["start_batch_index"] == 0
    assert type(content["model_state_dict"]) is dict and content["model_state_dict"].keys() == state.keys()
    for name, value in content["model_state_dict"].items():
        assert torch.equal(value, state[name]) and value.is_contiguous(), name
    wanted = [mtp_logits(model, row) for row in ROWS]
    data = write_rows(tmp_path / "rows.jsonl", ROWS)
    for name in (out, out / "checkpoint.pt"):
        check_scores(score(wmtp, name, data), ROWS, [[logits[head] for logits in wanted] for head in range(4)])
    export(wmtp, folder, out, "--dtype", "bf16", format="pt")
    half = torch.load(out / "checkpoint.pt", weights_only=True, mmap=True)["model_state_dict"]
    for name, value in half.items():
        assert torch.equal(value, state[name] if "value_head" in name else state[name].bfloat16()), name


def test_meta_files_become_a_transformers_folder(wmtp, tmp_path):
    model = make_model("llama grouped", intermediate_size=96)
    source = tmp_path / "meta"
    source.mkdir()
    torch.save(meta_state(model), source / "consolidated.00.pth")
    (source / "params.json").write_text(json.dumps({
        "dim": 32, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 96, "multiple_of": 32, "norm_eps": 1e-6}))
    export(wmtp, source, tmp_path / "out")
    same_logits(tmp_path / "out", model)


# ---- the folder ----

def test_an_older_export_is_replaced_whole(wmtp, tmp_path, mtp):
    folder, _, _ = mtp
    model = make_model("llama grouped")
    save(model, tmp_path / "source")
    out = tmp_path / "out"
    export(wmtp, folder, out, "--keep-mtp", "--max-shard-size", "12KB")
    export(wmtp, tmp_path / "source", out)
    assert not list(out.glob("model-*")) and not (out / "mtp_heads.safetensors").exists()
    same_logits(out, model)
    export(wmtp, tmp_path / "source", out, "--max-shard-size", "12KB", "--no-verify")
    assert not (out / "model.safetensors").exists()
    same_logits(out, model)
    assert sorted(os.listdir(tmp_path)) == ["mtp", "out", "source"]


def test_a_folder_of_other_things_is_left_alone(wmtp, tmp_path):
    save(make_model("llama grouped"), tmp_path / "source")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").write_text("years of work")
    assert "thesis.tex" in wmtp.error("checkpoint", "export", tmp_path / "source", "--format", "hf", "--out", tmp_path / "out",
                                      code=78)["message"]
    assert os.listdir(tmp_path / "out") == ["thesis.tex"]


def test_a_bare_name_is_a_new_folder(wmtp, tmp_path):
    save(make_model("llama grouped"), tmp_path / "source")
    result = wmtp.json("checkpoint", "export", "source", "--format", "hf", "--out", "exported", cwd=tmp_path)
    assert (result["source"], result["step"]) == ("source", None)
    mark = json.loads((tmp_path / "exported/wmtp_export.json").read_text())
    assert mark == {"format": "hf", "source": "source", "step": None}
    assert "- Source: source" in (tmp_path / "exported/README.md").read_text()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_models_that_wmtp_did_not_write_are_left_alone(wmtp, tmp_path):
    source, theirs = (save(make_model("llama grouped"), tmp_path / name) for name in ("source", "theirs"))
    before = contents(theirs)
    error = wmtp.error("checkpoint", "export", source, "--format", "hf", "--out", theirs, code=78)
    assert "no export wrote it" in error["message"] and error["hint"]
    assert contents(theirs) == before
    (tmp_path / "empty").mkdir()
    export(wmtp, source, tmp_path / "empty")


def test_the_source_is_never_the_target(wmtp, tmp_path):
    export(wmtp, save(make_model("llama grouped"), tmp_path / "source"), tmp_path / "out")
    before = contents(tmp_path / "out")
    for source in ("out", "out/", "out/model.safetensors"):
        error = wmtp.error("checkpoint", "export", source, "--format", "hf", "--out", "./out", cwd=tmp_path, code=78)
        assert "made from" in error["message"]
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize("format, kib", [("hf", 8), ("hf", 60), ("pt", 8), ("pt", 60)])
def test_a_full_disk(wmtp, tmp_path, format, kib):
    model = make_model("llama grouped")
    save(model, tmp_path / "source")
    out = tmp_path / "out"
    export(wmtp, tmp_path / "source", out, format=format)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    limit = dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, kib << 10)))
    for target in (out, tmp_path / "fresh"):
        error = wmtp.error("checkpoint", "export", tmp_path / "source", "--format", format, "--out", target, code=74, **limit)
        assert "enough space" in error["hint"]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["out", "source"]


def test_a_real_full_disk(wmtp, tmp_path):
    """A file system of 64 KiB, in a mount namespace of its own."""
    save(make_model("llama grouped"), tmp_path / "source")
    (tmp_path / "small").mkdir()
    script = (f"mount -t tmpfs -o size=64k none {tmp_path}/small || exit 99; "
              f"{wmtp.binary} --json checkpoint export {tmp_path}/source --format hf --out {tmp_path}/small/out; code=$?; "
              f"ls -A {tmp_path}/small; exit $code")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=120)
    if done.returncode in (1, 99):
        pytest.skip(f"no mounts here: {done.stderr.strip()}")
    assert done.returncode == 74, done.stdout + done.stderr
    assert "No space left" in done.stdout and len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("action, code", [("kill", -signal.SIGKILL), ("enospc", 74)])
def test_stopped_before_the_rename(wmtp, tmp_path, action, code):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("built without failpoints")
    model = make_model("llama grouped")
    save(model, tmp_path / "source")
    out = tmp_path / "out"
    export(wmtp, tmp_path / "source", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    command = ("checkpoint", "export", tmp_path / "source", "--format", "hf", "--dtype", "bf16", "--out", out)
    assert wmtp.run(*command, check=False, env={"WMTP_FAILPOINT": f"export.rename.before={action}"}).returncode == code
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    wmtp.run(*command)
    assert load_file(out / "model.safetensors")["model.norm.weight"].dtype == torch.bfloat16


def test_damaged_sources_leave_nothing(wmtp, tmp_path):
    save(make_model("llama grouped"), tmp_path / "source")
    weights = tmp_path / "source/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    wmtp.error("checkpoint", "export", tmp_path / "source", "--format", "hf", "--out", tmp_path / "out", code=65)
    for flags, part in ((["--format", "onnx"], "onnx"), (["--format", "hf", "--max-shard-size", "0"], "max-shard-size"),
                        (["--format", "hf", "--dtype", "int8"], "int8")):
        assert part in wmtp.error("checkpoint", "export", tmp_path / "source", "--out", tmp_path / "out", *flags,
                                  code=78)["message"]
    assert os.listdir(tmp_path) == ["source"]


def test_adapters_need_a_word(wmtp, tmp_path):
    save(make_model("llama grouped"), tmp_path / "source")
    for flags, part in ((["--format", "peft"], "no adapters"), (["--format", "hf", "--merge-lora"], "no adapters to merge")):
        assert part in wmtp.error("checkpoint", "export", tmp_path / "source", "--out", tmp_path / "out", *flags,
                                  code=78)["message"]
    assert os.listdir(tmp_path) == ["source"]
