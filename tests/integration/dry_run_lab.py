"""A small run that is sound, and the faults that are planted into it for tests of `wmtp train --dry-run`."""
import contextlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

CONFIG = """
experiment: {{name: trial, stage: baseline}}
models:
  policy: {{path: {lab}/model, name: trial, dtype: fp32}}
dataset: {{train: {lab}/data/train.jsonl, validation: {lab}/data/validation.jsonl, max_length: 112}}
training: {{max_steps: 3, batch_size: 2, learning_rate: 1e-3, max_bad_steps: 2}}
checkpoint: {{export_on_finish: none}}
runtime: {{device: cpu, threads: 1, run_dir: {lab}/runs/new, cache_dir: {lab}/cache}}
"""
SMALL = "{dim: 32, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 16, ffn_dim: 48}"


class Lab:
    """A folder with data, a model of five blocks, a critic and a configuration; all that a run writes is below it."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, Path(folder)
        wmtp.run("data", "demo", "--out", self.folder / "data", "--rows", "240", "--seed", "3")
        self.config = self.folder / "trial.yaml"
        self.config.write_text(CONFIG.format(lab=self.folder))
        (self.folder / "tmp").mkdir()
        (self.folder / "runs").mkdir()
        self.made("model", "checkpoint.export_on_finish=hf")

    def made(self, name, *overrides):
        """A model of its own, made by one step of a run; its checkpoints stay in runs/NAME."""
        run = self.folder / "runs" / name
        scratch = ("models.policy.path=micro-llama", "models.policy.init=random", f"models.policy.params={SMALL}",
                   f"models.policy.tokenizer_path={self.folder}/data", "training.max_steps=1", f"runtime.run_dir={run}")
        done = self.run("train", scratch + overrides)
        assert done.returncode == 0, done.stderr
        if (run / "final").exists():
            shutil.move(run / "final", self.folder / name)
        return self.folder / name

    def run(self, command, overrides=(), flags=(), ranks=1, env=None):
        words = [self.wmtp.binary, "--json"]
        if ranks > 1:
            words += ["launch", "--nproc", ranks, "--max-restarts", 0, "--"]
        words += [command, "--config", self.config, "--defaults", "none", *flags]
        for override in overrides:
            words += ["--override", override]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder / "tmp"), **(env or {})}
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, cwd=self.folder, env=env)

    def dry(self, overrides=(), flags=(), **options):
        return self.run("train", overrides, ["--dry-run", *flags], **options)

    def tree(self):
        """All that there is, with sizes and times of files."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            found[folder] = None
            for path in (Path(folder) / name for name in names):
                found[str(path)] = (path.lstat().st_size, path.lstat().st_mtime_ns)
        return found

    def rows(self, name, change=lambda row: row, count=60):
        lines = (self.folder / "data/train.jsonl").read_text().splitlines()[:count]
        path = self.folder / name
        path.write_text("".join(json.dumps(change(json.loads(line))) + "\n" for line in lines))
        return path

    def copy_of_model(self, name):
        path = self.folder / name
        if not path.exists():
            shutil.copytree(self.folder / "model", path)
        return path


def lines_of(done, kind):
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line for line in lines if line["type"] == kind]


@dataclass
class Fault:
    """What is planted, what a run ends with for it, and what it must be told of."""
    code: int
    said: tuple
    overrides: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    prepare: object = None  # (lab) -> more overrides, before the tree is looked at
    place: object = None  # (lab) -> a context in which it holds
    warned: bool = False  # the run trains all the same


@contextlib.contextmanager
def mounted(folder, *options):
    """A small file system there; without the rights to make one the test is skipped."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder],
                                           capture_output=True).returncode:
        pytest.skip("cannot mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def held(lab):
    """Another run in the same folder, alive."""
    run = lab.folder / "runs/held"
    words = [lab.wmtp.binary, "train", "--config", lab.config, "--defaults", "none", "--run-dir", run]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "WMTP_FAILPOINT": "step.begin:nth=1+=sleep:60000"})
    try:
        lock = run / "checkpoints/trial.lock"
        while not (lock.exists() and str(process.pid) in lock.read_text()):
            assert process.poll() is None
        yield
    finally:
        process.kill()
        process.wait()


def sick_weights(lab):
    folder = lab.copy_of_model("sick")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.4.mlp.up_proj.weight"][3, 5] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return [f"models.policy.path={folder}"]


def damaged_header(lab):
    folder = lab.copy_of_model("damaged")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[12:20] = b"\xff" * 8
    (folder / "model.safetensors").write_bytes(content)
    return [f"models.policy.path={folder}"]


def bad_line(lab):
    path = lab.rows("torn.jsonl", count=150)
    lines = path.read_text().splitlines()
    lines[41] = lines[41][:-9]
    path.write_text("\n".join(lines) + "\n")
    return [f"dataset.train={path}"]


def no_labels(lab):
    bare = lambda row: {key: value for key, value in row.items() if key not in ("is_correct", "task_id")}
    return [f"dataset.train={lab.rows('bare.jsonl', bare)}"]


def other_words(lab):
    """A tokenizer that is none of the model's: it has more tokens than the model."""
    folder = lab.folder / "words"
    if not folder.exists():
        shutil.copytree(lab.folder / "data", folder, ignore=shutil.ignore_patterns("*.jsonl", ".wmtp-cache"))
        path = folder / "tokenizer.json"
        words = json.loads(path.read_text())
        most = max(words["model"]["vocab"].values())
        words["model"]["vocab"].update({f"zz{i}": most + i for i in range(1, 2000)})
        path.write_text(json.dumps(words))
    return folder


def foreign_critic(lab):
    """A critic whose tokenizer has the same size and other tokens."""
    folder = lab.folder / "foreign-critic"
    if not folder.exists():
        lab.made("foreign-critic", "experiment.stage=critic", "checkpoint.export_on_finish=hf")
        path = folder / "tokenizer.json"
        words = json.loads(path.read_text())
        words["model"]["merges"] = words["model"]["merges"][:-1]
        path.write_text(json.dumps(words))
    return [f"models.value_model.checkpoint_path={folder}"]


def narrow_reference(lab):
    folder = lab.copy_of_model("reference")
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    config["vocab_size"] += 8
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = np.concatenate([tensors[name], tensors[name][:8]])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return [f"models.reference.path={folder}"]


def two_heads(lab):
    if not (lab.folder / "two-heads").exists():
        lab.made("two-heads", "models.policy.n_future_tokens=2", "checkpoint.export_on_finish=hf")
    return [f"models.policy.path={lab.folder}/two-heads", "models.policy.n_future_tokens=3"]


VERIFIABLE = ["experiment.stage=verifiable", "training.value.source=model"]
FAULTS = {
    "bad data path": Fault(78, ("dataset.train", "nowhere.jsonl"), ["dataset.train=nowhere.jsonl"]),
    "bad validation path": Fault(78, ("dataset.validation", "nowhere.jsonl"), ["dataset.validation=nowhere.jsonl"]),
    "unknown key": Fault(78, ("training.learning_rat",), ["training.learning_rat=1"]),
    "tokenizer of another model": Fault(78, ("the tokenizer has", "the model"),
                                        prepare=lambda lab: [f"models.policy.tokenizer_path={other_words(lab)}"]),
    "all rows too long": Fault(65, ("no samples",), ["dataset.truncate=drop", "dataset.max_length=8"]),
    "bad line": Fault(65, ("torn.jsonl:42",), prepare=bad_line),
    "rows without labels": Fault(65, ("bare.jsonl:1", "is_correct"), ["experiment.stage=critic"], prepare=no_labels),
    "no room": Fault(74, ("checkpoint.save_dir", "are free"), ["checkpoint.save_dir=small/saves"],
                     place=lambda lab: mounted(lab.folder / "small", "size=200k")),
    "run folder not writable": Fault(74, ("still/run", "Read-only"), ["runtime.run_dir=still/run", "checkpoint.save_dir=saves"],
                                     place=lambda lab: mounted(lab.folder / "still", "ro")),
    "checkpoints not writable": Fault(74, ("still", "Read-only"), ["checkpoint.save_dir=still/saves"],
                                      place=lambda lab: mounted(lab.folder / "still", "ro")),
    "too large": Fault(78, ("a rank needs", "are there"), ["runtime.memory_limit_gib=0.001"]),
    "weights that are no numbers": Fault(17, ("sick", "model.layers.4.mlp.up_proj.weight", "nan"), prepare=sick_weights),
    "damaged header": Fault(65, ("model.safetensors",), prepare=damaged_header),
    "no value model": Fault(78, ("models.value_model.checkpoint_path",), VERIFIABLE),
    "value model of another tokenizer": Fault(78, ("models.value_model.checkpoint_path", "tokenizer"), VERIFIABLE,
                                              prepare=foreign_critic),
    "reference of another vocabulary": Fault(78, ("models.reference.path", "tokens"), ["experiment.stage=rho1"],
                                             prepare=narrow_reference),
    "folder of a living run": Fault(78, ("uses", "held"), ["runtime.run_dir=runs/held"], place=held),
    "checkpoints of another model": Fault(78, ("runs/model/checkpoints", "trial"),
                                          ["checkpoint.save_dir=runs/model/checkpoints", "models.policy.name=other"]),
    "checkpoint of another run": Fault(78, ("models.policy.params",), flags=["--resume", "runs/model/checkpoints"]),
    "heads that contradict the model": Fault(78, ("models.policy.n_future_tokens", "2 heads"), prepare=two_heads),
    "no such LoRA target": Fault(78, ("wz",), ["training.use_lora=true", "training.lora.target_modules=[wz]"]),
    "no GPU": Fault(78, ("cuda",), flags=["--device", "cuda"]),
    "MLflow does not answer": Fault(0, ("127.0.0.1:9", "mlflow-spool"),
                                    ["mlflow.experiment=trial", "mlflow.tracking_uri=http://127.0.0.1:9"], warned=True),
    "the bucket does not answer": Fault(75, ("s3://nobody",),
                                        ["checkpoint.s3_upload=true", "storage.s3.bucket=nobody", "storage.s3.retries=0",
                                         "storage.s3.endpoint=http://127.0.0.1:9"]),
}
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example"}
