"""Real runs of a tiny model for tests of checkpoints: the program itself, one process or several."""
import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

CONFIG = """
experiment: {{name: tiny, stage: {stage}}}
models:
  policy:
    path: micro
    name: tiny
    tokenizer_path: {data}
    init: random
    dtype: fp32
    params: {{dim: 32, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 16, ffn_dim: 48}}
dataset: {{train: {data}/train.jsonl, validation: {data}/validation.jsonl, max_length: 112}}
data_sampling: {{n_samples: 24, val_n_samples: 4}}
training:
  n_epochs: 1000
  max_steps: {steps}
  batch_size: 2
  learning_rate: 3e-3
  lr_scheduler: {{type: cosine, warmup_ratio: 0.1}}
  eval_every_steps: 10
  use_lora: {lora}
  lora: {{rank: 4, dropout: 0.2}}
checkpoint:
  save_checkpoint_every: null
  save_every_steps: {every}
  save_total_limit: 3
  export_on_finish: none
runtime: {{device: cpu, cache_dir: {data}/cache, threads: 1}}
"""


class TinyRuns:
    """Runs of one configuration, each in a folder of its own."""

    def __init__(self, wmtp, folder, steps=40, every=5, lora=True, stage="baseline"):
        self.wmtp = wmtp
        self.folder = Path(folder)
        data = self.folder / "data"
        wmtp.run("data", "demo", "--out", data, "--rows", "80", "--seed", "3")
        self.config = self.folder / "tiny.yaml"
        self.config.write_text(CONFIG.format(stage=stage, data=data, steps=steps, lora=str(lora).lower(), every=every))

    def command(self, name, *flags, ranks=1, restarts=0, log_dir=None, **overrides):
        """argv of a run into the folder `name`; overrides as checkpoint__async=False."""
        train = ["train", "--config", self.config, "--defaults", "none", "--run-dir", self.folder / name, *flags]
        for key, value in overrides.items():
            text = value if isinstance(value, str) else json.dumps(value)
            train += ["--override", f"{key.replace('__', '.')}={text}"]
        launch = []
        if ranks > 1:
            launch = ["launch", "--nproc", ranks, "--max-restarts", restarts]
            launch += ["--log-dir", log_dir] if log_dir else []
            launch.append("--")
        return [str(word) for word in [self.wmtp.binary, "--json", *launch, *train]]

    def run(self, name, *flags, code=0, failpoint=None, **options):
        """BLOCKS until the run has ended; it must end with `code`."""
        done = subprocess.run(self.command(name, *flags, **options), capture_output=True, text=True, timeout=300,
                              env=environment(failpoint))
        assert done.returncode == code, f"ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}"
        return done

    def start(self, name, *flags, failpoint=None, hits=None, **options):
        """The run in the background; the failpoints it meets are written to `hits` before they act."""
        return subprocess.Popen(self.command(name, *flags, **options), stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=environment(failpoint, hits))

    def save_dir(self, name):
        return self.folder / name / "checkpoints"

    def checkpoint(self, name, step):
        return self.save_dir(name) / f"tiny-{step}steps"

    def steps(self, name):
        """Steps of the checkpoints that are there."""
        return sorted(int(p.name[5:-5]) for p in self.save_dir(name).glob("tiny-*steps"))


def environment(failpoint=None, hits=None):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if failpoint:
        env["WMTP_FAILPOINT"] = failpoint
    if hits:
        env["WMTP_FAILPOINT_LOG"] = str(hits)
    return env


def events(text, action):
    """The checkpoint events of that kind in the output of a run."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("type") == "checkpoint" and line["action"] == action]


def error_of(done):
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line for line in lines if line["type"] == "error"][-1]["message"]


def result_of(done):
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line for line in lines if line["type"] == "result"][-1]


def metrics(runs, name):
    """The points of a run's metrics.jsonl, none before there is one; a line that a kill has cut is left out."""
    points, path = [], runs.folder / name / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            points.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return points


def starts(runs, name):
    """The lines of a run's restarts.jsonl."""
    return [json.loads(line) for line in (runs.folder / name / "restarts.jsonl").read_text().splitlines()]


def losses_by_step(runs, name):
    """The set of losses that were told for a step: more than one only if it was done again with another result."""
    losses = {}
    for point in metrics(runs, name):
        if "train/loss" in point:
            losses.setdefault(point["step"], set()).add(point["train/loss"])
    return losses


def wait_for(condition, seconds=120):
    """BLOCKS until it holds; nothing else is waited for, least of all a number of seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def wait_for_hit(process, log, point):
    """BLOCKS until the run has met a failpoint, whose action comes next, or has ended."""
    wait_for(lambda: log.exists() and point in log.read_text() or process.poll() is not None)
    assert process.poll() is None, f"ended before {point}:\n{process.communicate()[0]}"


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def state_hash(checkpoint, without=("config.yaml",)):
    """One hash of all state in a checkpoint, from the sums of its files."""
    files = json.loads((Path(checkpoint) / "manifest.json").read_text())["files"]
    text = "".join(f"{f['path']} {f['sha256']}\n" for f in files if f["path"] not in without)
    return hashlib.sha256(text.encode()).hexdigest()
