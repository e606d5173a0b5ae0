"""Every key of the configuration does something: tests/golden/key_effects.yaml says what, runs show it.

A pair of runs differs in one override; a second run of every base shows that nothing else makes a difference, and that an
override whose value is taken back (as if nobody read it) leaves no trace. The runs are real ones of a tiny model, in
children of wmtp_many_runs, which loads the program once.
"""
import hashlib
import json
import os
import queue
import re
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EFFECTS = yaml.safe_load((ROOT / "tests/golden/key_effects.yaml").read_text())
KEYS = (ROOT / "tests/golden/config_keys.txt").read_text().split()
MAX_NAMED_TESTS = 36
WORKERS = 2

CONFIG = """
experiment: {name: tiny, stage: baseline}
models:
  policy:
    path: micro
    name: tiny
    tokenizer_path: demo
    init: random
    params: {dim: 16, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 8, ffn_dim: 16}
dataset: {train: demo/train.jsonl, validation: demo/validation.jsonl, max_length: 96}
data_sampling: {n_samples: 8, val_n_samples: 2}
training: {batch_size: 2, max_steps: 4, learning_rate: 3e-3, log_interval: 1, eval_every_steps: 2, eval_at_start: true}
checkpoint: {save_every_steps: 2, async: false}
runtime: {device: cpu, cache_dir: cache, threads: 1}
"""


def environment(folder):
    """That of the test, but for the keys of S3: those of a profile that no server knows."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "OMP_NUM_THREADS": "1", "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "made/credentials")}


class Program:
    """Command lines through a few servers, each of which has the program in memory."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.requests = queue.Queue()
        servers = [subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
                                    env=environment(folder)) for _ in range(WORKERS)]
        self.threads = [threading.Thread(target=self._serve, args=(server,), daemon=True) for server in servers]
        for thread in self.threads:
            thread.start()

    def _serve(self, server):
        while (item := self.requests.get()) is not None:
            request, done = item
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            done(json.loads(answer)["code"] if answer else None)
        server.stdin.close()
        server.wait()

    def start(self, args, output, done):
        self.requests.put(({"args": list(map(str, args)), "cwd": str(self.folder), "output": str(output)}, done))

    def close(self):
        for _ in self.threads:
            self.requests.put(None)
        for thread in self.threads:
            thread.join()


class Run:
    """What a run has left behind; everything an effect may look at."""

    def __init__(self, folder):
        self.folder, self.output = folder, folder.with_name(folder.name + ".txt")
        self.code = None
        self.ended = threading.Event()

    def end(self, code):
        self.code = code
        self.ended.set()

    @property
    def said(self):
        return self.output.read_text(errors="replace")

    def points(self):
        """Without those of saves, which are told when the writer is done: now before a step, now behind it."""
        path = self.folder / "metrics.jsonl"
        lines = [json.loads(line) for line in path.open()] if path.exists() else []
        return [line for line in lines if "checkpoint/save_s" not in line]

    def observe(self, what):
        """The part of the run that `what` names, as something that can be compared."""
        if what == "numbers":
            told = re.compile(r"(train|val)/(?!learning_rate|lora_lr|value_head_lr|epoch)")
            return [{name: value for name, value in point.items() if told.match(name)} for point in self.points()]
        if what == "points":
            return [(point.get("step"), sorted(name for name in point if not name.startswith("system/")))
                    for point in self.points()]
        if what == "readings":
            return sum("system/system_memory_usage_megabytes" in point for point in self.points()) > 1
        if what == "files":
            return sorted(self._name(path) for path in self.folder.rglob("*"))
        if what == "export":
            return hashlib.sha256((self.folder / "final/model.safetensors").read_bytes()).hexdigest()
        name, _, fields = what.partition(":")
        value = json.loads((self.folder / name).read_text())
        for field in fields.split("."):
            value = value[field]
        return value

    def _name(self, path):
        # Caches are named after what they hold, among it paths; TensorBoard's files after time and process.
        return re.sub(r"[0-9a-f]{16,}|(?<=tfevents).*", "#", str(path.relative_to(self.folder)))


class Workshop:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        (folder / "tiny.yaml").write_text(CONFIG)
        self.started = {}

    def text(self, override, run):
        """The override with @run, @made and @<run of the table> as paths; those runs are waited for."""
        for name in re.findall(r"@(\w+)", override):
            if name == "run":
                place = run.folder
            elif name == "made":
                place = self.folder / "made"
            else:
                place = self.base(name).folder
                self.base(name).ended.wait()
            override = override.replace("@" + name, str(place))
        return override

    def start(self, name, overrides):
        run = Run(self.folder / "runs" / name)
        run.folder.parent.mkdir(exist_ok=True)
        words = ["train", "--config", "tiny.yaml", "--defaults", "none"]
        if not any(o.startswith("runtime.run_dir=") for o in overrides):
            words += ["--run-dir", run.folder]
        for override in overrides:
            words += ["--override", self.text(override, run)]
        self.program.start(words, run.output, run.end)
        return run

    def base(self, name, more=(), again=False):
        """A run of the table, started once; `again`: its second one."""
        key = (name, tuple(more), again)
        if key not in self.started:
            label = f"{name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"
            self.started[key] = self.start(label, [*EFFECTS["runs"][name], *more])
        return self.started[key]


def no_difference(effect, before, after):
    """What is missing for `after` to show the effect; empty: it does."""
    wanted = effect.get("code", 0)
    if after.code != wanted:
        return f"ended with {after.code}, not {wanted}:\n{after.said[-1500:]}"
    if before.code != effect.get("before", 0):
        return f"the other run ended with {before.code}:\n{before.said[-1500:]}"
    if "says" in effect and (effect["says"] not in after.said or effect["says"] in before.said):
        return f"does not say {effect['says']!r}:\n{after.said[-1500:]}"
    if "not_says" in effect and (effect["not_says"] in after.said or effect["not_says"] not in before.said):
        return f"{effect['not_says']!r} makes no difference:\n{after.said[-1500:]}"
    if {"says", "not_says"} & effect.keys() or after.code != before.code:
        return ""
    what = effect.get("differs", "numbers")
    return f"no difference in {what}" if before.observe(what) == after.observe(what) else ""


def shown_by_runs():
    return {key: effect for key, effect in EFFECTS["keys"].items() if "set" in effect}


@pytest.fixture(scope="module")
def workshop(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    wmtp.run("data", "demo", "--out", folder / "demo", "--rows", "80", "--seed", "3")
    make_files(wmtp, folder)
    program = Program(wmtp.binary.parent / "wmtp_many_runs", folder)
    yield Workshop(program, folder)
    program.close()


def make_files(wmtp, folder):
    """What single keys need: bad rows, special tokens, documents, another tokenizer, other difficulties."""
    made = folder / "made"
    made.mkdir()
    rows = [json.loads(line) for line in (folder / "demo/train.jsonl").open()]
    lines = [json.dumps(row) for row in rows]
    (made / "bad.jsonl").write_text("\n".join([*lines[:19], "{broken"]) + "\n")
    special = [{**row, "output": row["output"] + "</s> and <s>"} for row in rows[:20]]
    (made / "special.jsonl").write_text("".join(json.dumps(row) + "\n" for row in special))
    joined = [{**row, "instruction": row["instruction"] + " de", "output": row["output"][2:]} for row in rows[:20]]
    (made / "joined.jsonl").write_text("".join(json.dumps(row) + "\n" for row in joined))
    texts = [{"text": row["output"] * (1 + i % 3), "body": row["instruction"]} for i, row in enumerate(rows[:9])]
    texts.insert(4, {"text": "", "body": ""})
    (made / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    (made / "text.txt").write_text("\n\n".join(row["output"] for row in rows[:30]))
    tokenizer = json.loads((folder / "demo/tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-30]
    (made / "tokenizer").mkdir()
    (made / "tokenizer/tokenizer.json").write_text(json.dumps(tokenizer))
    wmtp.run("data", "index", folder / "demo/train.jsonl", "--metadata-json", "--out", made / "index")
    metadata = json.loads((made / "index/train_metadata.json").read_text())
    for i, row in enumerate(metadata["metadata"]):
        row["difficulty"] = 1 + i % 6
    (made / "metadata.json").write_text(json.dumps(metadata))
    (made / "credentials").write_text("[default]\naws_access_key_id = x\naws_secret_access_key = y\n")
    (made / "tokenizer/tokenizer_config.json").write_text((folder / "demo/tokenizer_config.json").read_text())


@pytest.fixture(scope="module")
def pairs(workshop):
    """(base, changed) of every key that runs show, all ended."""
    started = {}
    for key, effect in shown_by_runs().items():
        more = effect.get("with", ())
        base = workshop.base(effect.get("base", "baseline"), more)
        overrides = [*EFFECTS["runs"][effect.get("base", "baseline")], *more, *effect.get("also", ()),
                     f"{key}={effect['set']}"]
        started[key] = base, workshop.start(key, overrides)
    for base, changed in started.values():
        base.ended.wait()
        changed.ended.wait()
    return started


def test_every_key_has_an_entry_and_nothing_else_has():
    assert sorted(EFFECTS["keys"]) == sorted(KEYS)


def test_what_is_left_to_other_tests_is_little_and_there():
    named = {key: effect["test"] for key, effect in EFFECTS["keys"].items() if "test" in effect}
    assert len(named) <= MAX_NAMED_TESTS
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("*") if path.suffix in (".cpp", ".py")}
    text = "\n".join(sources.values())
    for key, name in named.items():
        suite, _, case = name.rpartition(".")
        pattern = rf"TEST(_F|_P)?\({suite},\s*{case}\)" if suite else rf"^def {name}\("
        assert re.search(pattern, text, re.M), f"{key}: there is no test {name}"


def test_keys_that_wait_for_a_later_version_are_refused(wmtp, workshop):
    later = {key: effect["later"] for key, effect in EFFECTS["keys"].items() if "later" in effect}
    assert 0 < len(later) <= 50  # all of them fit on one screen of problems
    words = [word for key, value in later.items() for word in ("--override", f"{key}={value}")]
    check = ["validate", "--no-check-paths", "--config", workshop.folder / "tiny.yaml", "--defaults", "none"]
    done = wmtp.run(*check, *words, check=False)
    assert done.returncode == 78
    said = done.stdout + done.stderr
    missing = [key for key in later if not re.search(rf"{re.escape(key)}: .*not available in this version", said)]
    assert missing == [], said
    assert wmtp.run(*check).stdout.startswith("OK")


def test_every_other_key_makes_its_difference(pairs):
    silent = {key: why for key, (base, changed) in pairs.items()
              if (why := no_difference(EFFECTS["keys"][key], base, changed))}
    assert not silent, "\n".join(f"{key}: {why}" for key, why in silent.items())


def test_a_second_run_of_each_base_makes_none(pairs, workshop):
    second = {}
    for key, effect in shown_by_runs().items():
        second[key] = workshop.base(effect.get("base", "baseline"), effect.get("with", ()), again=True)
    for run in second.values():
        run.ended.wait()
    loud = [key for key, run in second.items() if not no_difference(EFFECTS["keys"][key], pairs[key][0], run)]
    assert loud == []


# What a reader that forgets its key would do: the value is there, and the default is used.
@pytest.mark.parametrize("key,default", [
    ("training.learning_rate", "0.003"), ("training.td.beta", "1.0"), ("training.value_loss.coef", "1"),
    ("checkpoint.export_on_finish", "auto"), ("experiment.description", ""), ("dataset.prompt_template", "alpaca"),
    ("runtime.threads", "1"), ("distributed.fsdp.sharding_strategy", "FULL_SHARD")])
def test_a_value_that_nobody_reads_is_noticed(pairs, workshop, key, default):
    effect = EFFECTS["keys"][key]
    overrides = [*EFFECTS["runs"][effect.get("base", "baseline")], *effect.get("with", ()), *effect.get("also", ())]
    run = workshop.start(f"unread-{key}", [*overrides, f"{key}={effect['set']}", f"{key}={default}"])
    run.ended.wait()
    assert no_difference(effect, pairs[key][0], run)
