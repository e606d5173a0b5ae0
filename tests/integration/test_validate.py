"""`wmtp validate`: what the run would be, and what the named files have against it, without starting or writing anything."""
import gzip
import json
import shutil

import pytest
from tiny_runs import TinyRuns

TINY = dict(dim=32, n_layers=5, n_heads=2, n_kv_heads=1, head_dim=16, ffn_dim=48)


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A configuration that trains, and a run of it to take models from."""
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("validate"), steps=2, every=2, lora=False)
    made.run("run", checkpoint__export_on_finish="hf")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(made.folder / "data" / name, made.folder / "run/final")
    made.fresh = made.folder / "fresh"  # the same data, which nothing has read yet
    made.fresh.mkdir()
    for name in ("train.jsonl", "validation.jsonl", "text.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(made.folder / "data" / name, made.fresh)
    return made


def overrides(changes):
    words = []
    for key, value in changes.items():
        words += ["--override", f"{key.replace('__', '.')}={value if isinstance(value, str) else json.dumps(value)}"]
    return words


def command(runs, *flags, **changes):
    return ["validate", "--config", runs.config, "--defaults", "none", *flags, *overrides(changes)]


def told(wmtp, runs, *flags, **changes):
    """The one line of a configuration that is sound."""
    (line,) = wmtp.json_lines(*command(runs, *flags, **changes))
    assert line["type"] == "config" and line["ok"]
    return line


def refused(wmtp, runs, code, *flags, **changes):
    """The errors, as (where, message, code)."""
    done = wmtp.run("--json", *command(runs, *flags, **changes), check=False)
    assert done.returncode == code, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines and {line["type"] for line in lines} == {"error"}, done.stdout
    return [(line["where"], line["message"], line["code"]) for line in lines]


def saved_model(runs, tmp_path, **changes):
    """The run's export with another config.json, as overrides that train it."""
    folder = tmp_path / "model"
    shutil.copytree(runs.folder / "run/final", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    return folder, dict(models__policy__path=str(folder), models__policy__init="pretrained", models__policy__params={},
                        models__policy__tokenizer_path=None)


# ---- what the run would be ----

def test_the_first_line_stays_and_the_run_follows(wmtp, runs):
    lines = wmtp.run(*command(runs, training__max_steps=None, training__n_epochs=2)).stdout.splitlines()
    said = told(wmtp, runs, training__max_steps=None, training__n_epochs=2)
    assert lines[0] == f"OK baseline {said['hash']}"
    facts = [line for line in lines[1:] if not line.startswith("  ")]
    assert [line.split(":")[0] for line in facts] == ["steps", "rows", "tokens a step", "trainable", "memory", "ranks"]
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert "model.layers.*.self_attn.q_proj.weight" in listed
    assert lines[1] == "steps: 24" and lines[2] == "rows: 80" and lines[-1] == "ranks: 1"
    assert "batch_size 2 x accumulation 1 x ranks 1, 112 tokens each" in lines[3]
    assert (said["steps"], said["rows"], said["indexed"], said["tokens_per_step"], said["ranks"]) == (24, 80, True, 224, 1)
    assert said["device"] == "cpu" and 0 < said["memory_bytes"] < said["memory_limit_bytes"]


def test_it_plans_what_train_runs(wmtp, runs):
    """Steps, parameters and rows as the run's own files tell them."""
    manifest = json.loads((runs.checkpoint("run", 2) / "manifest.json").read_text())
    total = 0
    for tensor in manifest["tensors"]["model"].values():
        count = 1
        for size in tensor["shape"]:
            count *= size
        total += count
    said = told(wmtp, runs)
    assert (said["steps"], said["trained_parameters"], said["parameters"]) == (2, total, total)
    adapted = told(wmtp, runs, training__use_lora=True)
    assert 0 < adapted["trained_parameters"] < total < adapted["parameters"]
    assert adapted["parameters"] - total == adapted["trained_parameters"]


def test_ranks_share_the_step(wmtp, runs):
    said = told(wmtp, runs, "--world-size", 3, training__gradient_accumulation_steps=2, training__max_steps=None,
                training__n_epochs=1)
    assert (said["ranks"], said["gradient_accumulation_steps"], said["tokens_per_step"]) == (3, 2, 3 * 2 * 2 * 112)
    assert said["steps"] == 2  # 24 samples, 12 a step


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_what_is_not_indexed_is_estimated_and_stays_so(wmtp, runs):
    before = files_of(runs.fresh)
    data = dict(dataset__train=f"{runs.fresh}/train.jsonl", dataset__validation=f"{runs.fresh}/validation.jsonl",
                runtime__cache_dir=f"{runs.folder}/never")
    all_rows = dict(data_sampling__n_samples=None, training__max_steps=None, training__n_epochs=1)
    said = told(wmtp, runs, **data, **all_rows)
    assert (said["rows"], said["indexed"], said["steps"]) == (80, False, 40)
    lines = wmtp.run(*command(runs, **data, **all_rows)).stdout.splitlines()
    assert lines[1:3] == ["steps: about 40", "rows: about 80 (not indexed yet)"]
    text = told(wmtp, runs, dataset__train=f"{runs.fresh}/text.txt", dataset__validation=None, dataset__format="text",
                runtime__cache_dir=f"{runs.folder}/never", **all_rows)
    assert not text["indexed"] and text["rows"] > 10
    assert files_of(runs.fresh) == before and not (runs.folder / "never").exists()


def test_an_estimate_is_close(wmtp, runs, tmp_path):
    """Of text the number of blocks, of compressed rows the number of lines; the index then says it exactly."""
    data = dict(dataset__train=f"{tmp_path}/text.txt", dataset__validation=None, dataset__format="text",
                data_sampling__n_samples=None, models__policy__tokenizer_path=str(runs.fresh))
    shutil.copy(runs.fresh / "text.txt", tmp_path)
    about = told(wmtp, runs, **data)
    runs.run("text", training__max_steps=1, **data)
    exactly = told(wmtp, runs, **data)
    assert exactly["indexed"] and abs(about["rows"] - exactly["rows"]) <= 0.1 * exactly["rows"] + 1
    with gzip.open(tmp_path / "train.jsonl.gz", "wb") as packed:
        packed.write((runs.fresh / "train.jsonl").read_bytes())
    assert told(wmtp, runs, dataset__train=f"{tmp_path}/train.jsonl.gz")["rows"] == 80


def test_without_files_only_what_is_known(wmtp, runs, tmp_path):
    gone = dict(models__policy__path="models/gone", models__policy__init="pretrained", models__policy__params={},
                models__policy__tokenizer_path="/nowhere", dataset__train="/nowhere/train.jsonl")
    lines = wmtp.run(*command(runs, "--no-check-paths", **gone)).stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["steps", "tokens a step", "ranks"]
    assert lines[1] == "steps: at most 2"
    said = told(wmtp, runs, "--no-check-paths", dataset__train="/nowhere/train.jsonl", models__policy__tokenizer_path="/nowhere")
    assert said["trained_parameters"] == told(wmtp, runs)["trained_parameters"]
    assert (said["rows"], said["memory_bytes"], said["device"]) == (None, None, None)


# ---- what files have against it ----

def test_a_model_that_is_not_there(wmtp, runs):
    ((where, message, _),) = refused(wmtp, runs, 78, models__policy__path="models/gone", models__policy__init="pretrained",
                                     models__policy__params={})
    assert where == "--override 1" and message.startswith("models.policy.path: ") and "models/gone" in message


def test_a_model_of_another_kind(wmtp, runs, tmp_path):
    _, changes = saved_model(runs, tmp_path, model_type="gpt2")
    ((where, message, code),) = refused(wmtp, runs, 78, **changes)
    assert (where, code) == ("--override 1", 78) and "model_type" in message and "gpt2" in message


def test_a_model_whose_files_are_damaged(wmtp, runs, tmp_path):
    folder, changes = saved_model(runs, tmp_path)
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-3])
    ((_, message, code),) = refused(wmtp, runs, 65, **changes)
    assert code == 65 and message.startswith("models.policy.path: ") and "model.safetensors" in message


@pytest.mark.parametrize("content,code", [("{", 65), ('{"version": "1.0", "model": {"type": "Unigram"}}', 78), (None, 78)])
def test_a_tokenizer_that_cannot_be_read(wmtp, runs, tmp_path, content, code):
    if content:
        (tmp_path / "tokenizer.json").write_text(content)
    ((where, message, _),) = refused(wmtp, runs, code, models__policy__tokenizer_path=str(tmp_path))
    assert where == "--override 1" and message.startswith("models.policy.tokenizer_path: ")
    assert "tokenizer.json" in message


@pytest.mark.parametrize("split", ["train", "validation"])
def test_data_that_is_no_data(wmtp, runs, tmp_path, split):
    for name, content, code, part in (("folder", None, 78, "is a folder"), ("other.jsonl", '{"a": 1}\n', 65, "keys: a"),
                                      ("empty.jsonl", "\n", 65, "holds no row"), ("gone.jsonl", "", 78, "does not exist"),
                                      ("bad.jsonl", '{"instruction": "x", "output": 3}\n', 65, "bad.jsonl:1")):
        path = tmp_path / split / name
        if name != "gone.jsonl":
            path.mkdir(parents=True) if content is None else path.write_text(content)
        ((where, message, _),) = refused(wmtp, runs, code, **{f"dataset__{split}": str(path)})
        assert where == "--override 1" and message.startswith(f"dataset.{split}: ") and part in message, message


def test_errors_of_all_files_come_together_with_their_lines(wmtp, runs, tmp_path):
    text = runs.config.read_text()
    broken = tmp_path / "broken.yaml"
    broken.write_text(text.replace("path: micro", "path: models/gone").replace("init: random", "init: pretrained")
                      .replace(f"tokenizer_path: {runs.folder}/data", f"tokenizer_path: {tmp_path}")
                      .replace("/validation.jsonl", "/gone.jsonl"))
    done = wmtp.run("validate", "--config", broken, "--defaults", "none", check=False)
    assert done.returncode == 78 and done.stdout == ""
    errors = done.stderr.splitlines()
    assert errors[-1] == "3 errors"
    lines = broken.read_text().splitlines()
    for key, written in (("models.policy.path", "path: models"), ("models.policy.tokenizer_path", "tokenizer_path:"),
                         ("dataset.validation", "dataset:")):
        number = next(i for i, line in enumerate(lines, 1) if written in line)
        assert [line for line in errors if f"broken.yaml:{number}" in line and f": {key}: " in line], errors


def test_what_does_not_fit(wmtp, runs, tmp_path):
    ((where, message, _),) = refused(wmtp, runs, 78, runtime__memory_limit_gib=0.001)
    assert where == str(runs.config) and "GiB are there" in message
    _, changes = saved_model(runs, tmp_path)
    ((where, message, _),) = refused(wmtp, runs, 78, dataset__max_length=2048, **changes)
    assert where == "--override 1" and message.startswith("dataset.max_length is 2048")
    ((where, message, _),) = refused(wmtp, runs, 78, models__policy__params={**TINY, "vocab_size": 100})
    assert "the tokenizer has" in message


def test_sampling_that_train_would_refuse(wmtp, runs):
    ((where, message, _),) = refused(wmtp, runs, 65, data_sampling__n_samples=100)
    assert where == str(runs.config) and "100" in message
    ((_, message, _),) = refused(wmtp, runs, 65, data_sampling__val_n_samples=100)
    assert message == "100 rows wanted, 8 available (data_sampling.val_n_samples)"
