"""The commonest mistakes, made for real: each error names the place, the cause and what mends it, and doing that ends it.
docs/troubleshooting.md lists them under the words of their causes."""
import contextlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dry_run_lab import held

PAGE = Path(__file__).resolve().parents[2] / "docs/troubleshooting.md"
CONFIG = """\
experiment: {name: trial, stage: baseline}
models:
  policy: {path: model, name: trial}
dataset: {train: data/train.jsonl, max_length: 112}
training: {max_steps: 1, batch_size: 2, learning_rate: 1e-3}
checkpoint: {export_on_finish: none}
runtime: {device: cpu, threads: 1, run_dir: runs/new, cache_dir: cache}
"""


class Lab:
    """A folder with data, a model of random weights and a configuration that is sound."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, folder
        self.config = folder / "run.yaml"
        absolute = CONFIG
        for name in ("model", "data/train.jsonl", "cache"):  # who holds the folder runs elsewhere
            absolute = re.sub(f"(: ){name}", rf"\g<1>{folder}/{name}", absolute)
        self.config.write_text(absolute)
        wmtp.run("data", "demo", "--out", folder / "data", "--rows", 60, "--seed", 3)
        wmtp.run("checkpoint", "export", "micro-llama", "--format", "hf", "--out", folder / "model", "--no-verify")
        for file in (folder / "data").glob("tokenizer*"):
            shutil.copy(file, folder / "model")

    def rows(self):
        return [json.loads(line) for line in (self.folder / "data/train.jsonl").read_text().splitlines()]

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run(self, mistake, mended):
        text = CONFIG
        if not mended:
            for old, new in mistake.edits:
                assert old in text
                text = text.replace(old, new)
        self.write("case.yaml", text)
        words = [*mistake.command, "--config", "case.yaml", "--defaults", "none"]
        for override in mistake.mended if mended else mistake.overrides:
            words += override.split(" ", 1) if override.startswith("--") else ["--override", override]
        env = {"HF_HUB_CACHE": str(self.folder / "hub"), **({} if mended else mistake.env)}
        done = self.wmtp.run(*words, cwd=self.folder, env=env, check=False)
        return done.returncode, done.stdout + done.stderr


@dataclass
class Mistake:
    code: int
    place: str  # file, line, key or flag
    cause: str  # in the message and on the page
    fix: str  # the key, value or command that mends it
    overrides: list = field(default_factory=list)  # of the mistake; flags too, where they begin with --
    mended: list = field(default_factory=list)  # the overrides after doing what the message says
    edits: list = field(default_factory=list)  # of the configuration's text
    env: dict = field(default_factory=dict)
    command: tuple = ("validate",)
    prepare: object = None  # (lab)
    mend: object = None  # (lab, text of the error): what is done besides
    around: object = None  # (lab) -> a context in which the mistake is one


def typed(lab, text):
    """The command after `make them with:` or `these names:`, typed as it stands."""
    command = re.search(r"(?:make them with|these names): (.*?)(?:; dataset|$)", text, re.MULTILINE)[1]
    subprocess.run(command, shell=True, check=True, cwd=lab.folder)


def without_tokenizer(lab):
    shutil.copytree(lab.folder / "model", lab.folder / "bare", ignore=shutil.ignore_patterns("tokenizer*"))


def other_tokenizer(lab):
    shutil.copytree(lab.folder / "data", lab.folder / "words", ignore=shutil.ignore_patterns("*.jsonl"))
    words = json.loads((lab.folder / "words/tokenizer.json").read_text())
    most = max(words["model"]["vocab"].values())
    words["model"]["vocab"].update({f"zz{i}": most + i for i in range(1, 2000)})
    lab.write("words/tokenizer.json", json.dumps(words))


def downloaded(lab, _):
    """As `hf download` leaves it."""
    repository = lab.folder / "hub/models--some--model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("abc")
    shutil.copytree(lab.folder / "model", repository / "snapshots/abc")


def csv_rows(lab):
    lab.write("rows.csv", "instruction,output\n" + "".join(f"add {i},sum {i}\n" for i in range(20)))


def array_rows(lab):
    lab.write("rows.json", json.dumps(lab.rows()))


def other_columns(lab):
    lab.write("chat.jsonl", "".join(json.dumps({"prompt": row["instruction"], "completion": row["output"]}) + "\n"
                                    for row in lab.rows()))


def no_labels(lab):
    lab.write("bare.jsonl", "".join(json.dumps({"instruction": row["instruction"], "output": row["output"]}) + "\n"
                                    for row in lab.rows()))


def first_run(lab):
    lab.run(Mistake(0, "", "", "", command=TRAIN, mended=["--run-dir runs/first"]), mended=True)


TRAIN = ("train",)
MISTAKES = {
    "misspelt key": Mistake(78, "case.yaml:5:", "unknown key; did you mean", '"learning_rate"',
                            edits=[("learning_rate: 1e-3", "learning_rat: 1e-3")]),
    "wrong type": Mistake(78, "case.yaml:5:", "expected an integer, found the text", "training.batch_size",
                          edits=[("batch_size: 2", "batch_size: two")]),
    "missing key": Mistake(78, "case.yaml: training.learning_rate", "required key is missing", "wmtp init",
                           edits=[(", learning_rate: 1e-3", "")]),
    "no such model": Mistake(78, "models.policy.path", "there is no file or folder", "the current folder holds",
                             ["models.policy.path=modle"]),
    "model not downloaded": Mistake(78, "models.policy.path", "is no folder here and not in the Hugging Face cache",
                                    "hf download some/model", ["models.policy.path=some/model"],
                                    ["models.policy.path=some/model"], mend=downloaded),
    "no model folder": Mistake(78, "models.policy.path: data", "neither weights nor a config.json or params.json are there",
                               "config.json and model.safetensors", ["models.policy.path=data"]),
    "no tokenizer": Mistake(78, "bare", "holds neither tokenizer.json nor tokenizer.model", "models.policy.tokenizer_path",
                            ["models.policy.path=bare"], ["models.policy.path=bare", "models.policy.tokenizer_path=data"],
                            prepare=without_tokenizer),
    "another model's tokenizer": Mistake(78, "words", "is it the model's own tokenizer?", "models.policy.tokenizer_path",
                                         ["models.policy.tokenizer_path=words"], prepare=other_tokenizer),
    "no such data": Mistake(78, "dataset.train", "does not exist; did you mean", '"data/train.jsonl"',
                            ["dataset.train=data/trian.jsonl"]),
    "a CSV file": Mistake(65, "dataset.train: rows.csv", "is a CSV file; rows are JSON Lines", "< rows.csv > rows.jsonl",
                          ["dataset.train=rows.csv"], ["dataset.train=rows.jsonl"], prepare=csv_rows, mend=typed),
    "a JSON array": Mistake(65, "dataset.train: rows.json", "is a JSON array; rows are JSON Lines",
                            "jq -c '.[]' < rows.json > rows.jsonl", ["dataset.train=rows.json"],
                            ["dataset.train=rows.jsonl"], prepare=array_rows, mend=typed),
    "other columns": Mistake(65, "chat.jsonl", 'neither "instruction" and "output" nor "text"',
                             "jq -c '. + {instruction: .prompt, output: .completion}'", ["dataset.train=chat.jsonl"],
                             ["dataset.train=chat-rows.jsonl"], prepare=other_columns, mend=typed),
    "rows too long": Mistake(65, "dataset.max_length", "none has a target within dataset.max_length", "raise dataset.max_length",
                             ["dataset.max_length=8", "--run-dir runs/long"], ["--run-dir runs/long"], command=TRAIN),
    "does not fit": Mistake(78, "case.yaml", "a rank needs", "a smaller training.batch_size",
                            ["runtime.memory_limit_gib=0.1", "training.batch_size=512"],
                            ["runtime.memory_limit_gib=0.1", "training.batch_size=1"]),
    "no GPU": Mistake(78, "device cuda", "device cuda was asked for, but", "--device cpu",
                      ["--device cuda", "--run-dir runs/gpu"], ["--device cpu", "--run-dir runs/gpu"],
                      env={"CUDA_VISIBLE_DEVICES": ""}, command=TRAIN),
    "mps": Mistake(78, "runtime.device", '"mps" is not available in this version', "use auto, cuda, cpu",
                   ["runtime.device=mps"], ["runtime.device=cpu"]),
    "nccl without GPUs": Mistake(78, "distributed.backend", "nccl needs CUDA and a GPU for each rank", "use auto or gloo",
                                 ["distributed.backend=nccl"], ["distributed.backend=gloo"]),
    "folder not writable": Mistake(74, "run.yaml/saves", "Not a directory", "checkpoint.save_dir",
                                   ["checkpoint.save_dir=run.yaml/saves", "--run-dir runs/still"],
                                   ["checkpoint.save_dir=saves", "--run-dir runs/still"], command=TRAIN),
    "resumed with other settings": Mistake(
        78, "runtime.seed: 42 -> 7", "the checkpoint was saved under another configuration",
        "checkpoint.allow_config_change", ["runtime.seed=7", "--run-dir runs/first"],
        ["runtime.seed=7", "checkpoint.allow_config_change=[runtime.seed]", "--run-dir runs/first"],
        command=TRAIN, prepare=first_run),
    "folder in use": Mistake(78, "runs/held", "uses the run folder", "choose another folder with --run-dir",
                             ["--run-dir runs/held"], ["--run-dir runs/other"], command=TRAIN, around=held),
    "no such LoRA target": Mistake(78, "training.lora", "unknown target_modules", "known are q_proj",
                                   ["training.use_lora=true", "training.lora.target_modules=[qproj]"],
                                   ["training.use_lora=true", "training.lora.target_modules=[q_proj]"]),
    "critic without labels": Mistake(65, "bare.jsonl:1", "a row without is_correct", "give every row is_correct",
                                     ["experiment.stage=critic", "dataset.train=bare.jsonl", "--run-dir runs/critic"],
                                     ["experiment.stage=critic", "--run-dir runs/critic"], command=TRAIN, prepare=no_labels),
    "rho1 without reference": Mistake(78, "models.reference.path", "stage rho1 needs exactly one of", "models.reference.path",
                                      ["experiment.stage=rho1"], ["experiment.stage=rho1", "models.reference.path=model"]),
    "override without value": Mistake(78, "--override 1", 'has no "="', "write key.path=value", ["training.batch_size"],
                                      ["training.batch_size=2"]),
    "half a launcher": Mistake(78, "seen: RANK=0", "RANK is set, WORLD_SIZE is not", "set both or neither",
                               ["--run-dir runs/half"], ["--run-dir runs/half"], env={"RANK": "0"}, command=TRAIN),
    "upload without bucket": Mistake(78, "checkpoint.s3_upload", "needs storage.s3.bucket", "storage.s3.bucket",
                                     ["checkpoint.s3_upload=true"], ["checkpoint.s3_upload=true", "storage.s3.bucket=mine"]),
}


@pytest.fixture(scope="module")
def lab(wmtp, tmp_path_factory):
    return Lab(wmtp, tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_says_where_why_and_what_to_do(lab, name):
    mistake = MISTAKES[name]
    if mistake.prepare:
        mistake.prepare(lab)
    with mistake.around(lab) if mistake.around else contextlib.nullcontext():
        code, text = lab.run(mistake, mended=False)
        assert code == mistake.code, text
        for piece in (mistake.place, mistake.cause, mistake.fix):
            assert piece in text, (piece, text)
        if mistake.mend:
            mistake.mend(lab, text)
        code, text = lab.run(mistake, mended=True)
    assert code == 0 and mistake.cause not in text, text


def test_the_page_has_them_all():
    page = re.sub(r"\s+", " ", PAGE.read_text())
    assert len(MISTAKES) >= 20
    assert [mistake.cause for mistake in MISTAKES.values() if mistake.cause not in page] == []
