"""Names and values of files end up in what the program prints: none of it may reach the terminal as it stands."""
import json
import re
import struct
import zipfile

import pytest
from page_reader import Page

RED = "\x1b[31m"
C1 = "\u009b31m"  # the same in one character
TURN = "\u202e"  # right-to-left override
HOSTILE = f"evil{RED}{C1}{TURN}\x07"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

SHAPE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 16,
         "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16, "max_position_embeddings": 32}


def safetensors(path, header, data=b""):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model(folder, change=None):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**SHAPE, **(change or {})}))
    safetensors(folder / "model.safetensors", {})
    return folder


def archive(path):
    """A .pt whose pickle names a function of another module."""
    name = f"os\n{HOSTILE}\n".encode()
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("archive/data.pkl", b"\x80\x02c" + name + b")R.")
        out.writestr("archive/version", "3\n")
    return path


def case(tmp_path, kind):
    """The command line of a case and the code it must end with."""
    one = {HOSTILE: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    if kind == "tensor name, listed":
        path = tmp_path / "one.safetensors"
        safetensors(path, one, b"\0" * 4)
        return ["checkpoint", "inspect", path, "--tensors"], 0
    if kind == "unexpected tensor":
        folder = model(tmp_path / "m")
        safetensors(folder / "model.safetensors", one, b"\0" * 4)
        return ["score", "--model", folder, "--data", tmp_path / "none.jsonl"], 78
    if kind == "dtype":
        path = tmp_path / "one.safetensors"
        safetensors(path, {"a": {"dtype": HOSTILE, "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4)
        return ["checkpoint", "inspect", path, "--tensors"], 65
    if kind == "file of an index":
        folder = model(tmp_path / "m")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": HOSTILE}}))
        return ["checkpoint", "inspect", folder, "--tensors"], 78
    if kind == "model_type":
        return ["score", "--model", model(tmp_path / "m", {"model_type": HOSTILE}), "--data", "x"], 78
    if kind == "config.json key":
        return ["score", "--model", model(tmp_path / "m", {"rms_norm_eps": HOSTILE}), "--data", "x"], 78
    if kind == "pickle global":
        return ["checkpoint", "inspect", archive(tmp_path / "a.pt"), "--tensors"], 65
    if kind == "zip entry":
        with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr(f"{HOSTILE}/data.pkl", b"x" * 100)
        return ["checkpoint", "inspect", tmp_path / "a.pt", "--tensors"], 65
    if kind == "configuration value":
        path = tmp_path / "run.yaml"
        path.write_text("training: {learning_rate: %s}\n" % json.dumps(HOSTILE))
        return ["validate", "--config", path], 78
    if kind == "configuration key":
        path = tmp_path / "run.yaml"
        path.write_text("experiment: {%s: 1}\n" % json.dumps(HOSTILE))
        return ["validate", "--config", path], 78
    if kind == "override":
        path = tmp_path / "run.yaml"
        path.write_text("experiment: {name: x, stage: baseline}\n")
        return ["validate", "--config", path, "--override", f"{HOSTILE}=1"], 78
    if kind == "migrated key":
        (tmp_path / "old.yaml").write_text("experiment: {%s: %s}\n" % (json.dumps(HOSTILE), json.dumps(HOSTILE)))
        return ["migrate", tmp_path / "old.yaml"], 78
    if kind == "migrated value":
        path = tmp_path / "old.yaml"
        path.write_text("experiment: {name: x, stage: baseline, description: %s, odd: %s}\nmodels: {policy: {path: m}}\n"
                        "dataset: {train: d}\ntraining: {lr: 1e-3, temperature: 1}\n" % (json.dumps(HOSTILE), json.dumps(HOSTILE)))
        return ["migrate", path, "--allow-unknown"], 0
    if kind == "migrated script":
        return ["migrate", "--script", f"train.py --{HOSTILE} 1 --data '{HOSTILE}'", "--allow-unknown"], 0
    if kind == "tokenizer.json":
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": HOSTILE}}))
        return ["tokenizer", "inspect", "--tokenizer", tmp_path], 78
    if kind == "metric name":
        run = tmp_path / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text(json.dumps({"step": 1, "time": 1.0, "train/loss": 2.0, HOSTILE: 1.0}) + "\n")
        return ["report", run, "--format", "text"], 0
    raise ValueError(kind)


KINDS = ["tensor name, listed", "unexpected tensor", "dtype", "file of an index", "model_type",
         "config.json key", "pickle global", "zip entry", "configuration value", "configuration key", "override",
         "migrated key", "migrated value", "migrated script", "tokenizer.json", "metric name"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flags", [(), ("--json",), ("--color", "always")], ids=["plain", "json", "colour"])
def test_nothing_raw_is_printed(wmtp, tmp_path, kind, flags):
    command, code = case(tmp_path, kind)
    done = wmtp.run(*flags, *command, check=False)
    text = done.stdout + done.stderr  # colours may stay where we print in colour; nothing else may
    assert done.returncode == code, text
    shown = re.sub("\x1b\\[[0-9;]*m", "", text) if "--color" in flags else text
    assert not RAW.search(shown), repr(text)
    assert re.search(r"\\(x07|u0007)", text), text


def test_a_long_number_is_not_printed_whole(wmtp, tmp_path):
    folder = model(tmp_path / "m")
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"hidden_size": 8', '"hidden_size": "' + "7" * 100_000 + '"'))
    said = wmtp.run("score", "--model", folder, "--data", "x", check=False).stderr
    assert len(said) < 2000 and "hidden_size" in said


@pytest.mark.parametrize("field,value", [("rms_norm_eps", -1), ("num_attention_heads", 0), ("rope_theta", 0.5)])
def test_errors_use_the_files_own_words(wmtp, tmp_path, field, value):
    said = wmtp.error("score", "--model", model(tmp_path / "m", {field: value}), "--data", "x", code=78)["message"]
    assert re.search(rf"m/config\.json: {field} is {value}\b", said), said


def test_weights_that_do_not_fit_name_their_file(wmtp, tmp_path):
    folder = model(tmp_path / "m")
    safetensors(folder / "model.safetensors", {"strange": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4)
    said = wmtp.error("score", "--model", folder, "--data", "x", code=78)["message"]
    assert str(folder) in said and "strange [1]" in said and "model.safetensors" in said


def test_decoded_text_is_the_result_byte_for_byte(wmtp, tmp_path):
    wmtp.run("data", "demo", "--out", tmp_path / "demo", "--rows", 40)
    lines = wmtp.run("tokenizer", "encode", "--tokenizer", tmp_path / "demo", input=HOSTILE).stdout
    assert wmtp.run("tokenizer", "decode", "--tokenizer", tmp_path / "demo", input=lines).stdout == HOSTILE


def test_rows_reach_pages_only_as_text(wmtp, tmp_path):
    """Markup, control characters and marks of direction in every field and in the name of a bin."""
    wmtp.run("data", "demo", "--out", tmp_path / "demo", "--rows", 40)
    evil = HOSTILE + "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u2066"
    row = {"instruction": evil, "input": evil, "output": evil, "task_id": "a" + evil, "is_correct": True, "metadata": {"difficulty": 1}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "is_correct": False}) + "\n")
    (tmp_path / "run.yaml").write_text(json.dumps({
        "experiment": {"name": "evil", "stage": "baseline"},
        "models": {"policy": {"path": "micro", "tokenizer_path": "demo", "init": "random", "dtype": "fp32"}},
        "dataset": {"train": "rows.jsonl", "max_length": 1024}, "training": {"learning_rate": 1e-3, "batch_size": 2},
        "data_sampling": {"difficulty_bins": {"<b>bin": [0, 9]}}, "runtime": {"device": "cpu", "run_dir": "run"}}))
    for command in (["data", "inspect", "--stats", "--sample", 2, "--weights"], ["score"]):
        wmtp.run(*command, "--config", "run.yaml", "--html", "page.html", cwd=tmp_path)
        page = Page(tmp_path / "page.html")
        page.assert_is_inert()
        assert not RAW.search(page.html)
        shown = "".join(token.text for token in page.rows[0])
        for part in ("<script>alert(1)</script>", "onerror=alert(1)", "\\u001b[31m", "\\u202e", "\\u2066", "\\u0007"):
            assert shown.count(part) == 3, part
    said = wmtp.run("data", "inspect", "--stats", "--config", "run.yaml", "--html", "page.html", cwd=tmp_path).stdout
    assert "<b>bin" in said and "&lt;b&gt;bin" in (tmp_path / "page.html").read_text()
