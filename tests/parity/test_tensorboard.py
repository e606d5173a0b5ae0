"""TensorBoard itself reads what a run writes: numbers, histograms and texts, also of a run that was killed and went on."""
import html
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugin_util import markdown_to_safe_html
from tensorboard.util.tensor_util import make_ndarray

CONFIG = """
experiment: {name: tiny, stage: verifiable, description: "a <b>bold</b> | claim"}
models:
  policy:
    path: micro
    name: tiny
    tokenizer_path: demo
    init: random
    params: {dim: 16, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 8, ffn_dim: 16}
dataset: {train: demo/train.jsonl, validation: demo/validation.jsonl, max_length: 96}
data_sampling: {n_samples: 24, val_n_samples: 2}
training:
  batch_size: 2
  max_steps: 12
  learning_rate: 3e-3
  log_interval: 1
  eval_every_steps: 4
  td: {mode: gae}
  value_loss: {bias_init: 0.3}
checkpoint: {save_every_steps: 4, async: false, export_on_finish: none}
tracking: {tensorboard: true}
runtime: {device: cpu, cache_dir: cache, threads: 1}
"""
EVERYTHING = {"scalars": 0, "tensors": 0}


class Run:
    def __init__(self, wmtp, folder, name, failpoint=None, code=0):
        self.folder = folder / name
        env = {"OMP_NUM_THREADS": "1"} | ({"WMTP_FAILPOINT": failpoint} if failpoint else {})
        done = wmtp.run("train", "--config", "tiny.yaml", "--defaults", "none", "--run-dir", self.folder,
                        cwd=folder, env=env, check=False)
        assert done.returncode == code, done.stdout + done.stderr

    def event_files(self):
        return sorted((self.folder / "tb").iterdir())

    def lines(self, name):
        return [json.loads(line) for line in (self.folder / name).open()]

    def told(self):
        """{metric: {step: value}}; of a step that was repeated, the last one."""
        values = {}
        for line in self.lines("metrics.jsonl"):
            for name, value in line.items():
                if "/" in name:
                    values.setdefault(name, {})[line["step"]] = float(value)
        return values

    def shown(self):
        """What TensorBoard has of the folder of event files."""
        events = EventAccumulator(str(self.folder / "tb"), size_guidance=EVERYTHING)
        events.Reload()
        return events


@pytest.fixture(scope="module")
def place(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensorboard")
    wmtp.run("data", "demo", "--out", folder / "demo", "--rows", "80", "--seed", "3")
    (folder / "tiny.yaml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def calm(wmtp, place):
    return Run(wmtp, place, "calm")


def text_of(event):
    """The Markdown of a text event, and what the page shows of it without its elements."""
    markdown = make_ndarray(event.tensor_proto).item().decode()
    return markdown, html.unescape(re.sub(r"<[^>]*>", "", markdown_to_safe_html(markdown)))


def assert_scalars_are_those_told(run, shown):
    told = run.told()
    assert sorted(shown.Tags()["scalars"]) == sorted(told)
    for name, values in told.items():
        events = shown.Scalars(name)
        assert [event.step for event in events] == sorted(values), name
        np.testing.assert_array_equal([event.value for event in events],
                                      np.array([values[step] for step in sorted(values)], dtype=np.float32))


def test_scalars_are_those_of_the_metrics_file(calm):
    assert_scalars_are_those_told(calm, calm.shown())


def test_histograms_are_those_of_the_run_folder(calm):
    shown, told = calm.shown(), calm.lines("histograms.jsonl")
    assert {line["name"] for line in told} >= {"weight", "value"}
    for line in told:
        tag = f"histograms/{line['name']}"
        assert shown.SummaryMetadata(tag).plugin_data.plugin_name == "histograms"
        [event] = [event for event in shown.Tensors(tag) if event.step == line["step"]]
        rows = np.array([line["edges"][:-1], line["edges"][1:], line["counts"]], dtype=np.float64).T
        np.testing.assert_array_equal(make_ndarray(event.tensor_proto), rows)


def test_samples_are_readable_texts(calm):
    shown, told = calm.shown(), calm.lines("samples.jsonl")
    steps = {}
    for line in told:
        number = steps[line["step"]] = steps.get(line["step"], 0) + 1
        tag = f"sample/{number}"
        assert shown.SummaryMetadata(tag).plugin_data.plugin_name == "text"
        [event] = [event for event in shown.Tensors(tag) if event.step == line["step"]]
        markdown, page = text_of(event)
        targets = [token for token in line["tokens"] if token["m"]]
        assert markdown.count("<strong>") == len(targets) > 0
        weighted = any(token["w"] != 1 for token in targets)  # weights that are all 1 are left out
        words = "".join(token["t"] if not token["m"] else
                        token["t"] + (f"{{{token['w']:.2f}}}" if weighted else "") + f"[{token['v']:.2f}]"
                        for token in line["tokens"])
        assert words in page
    assert max(steps.values()) == 2


def test_the_configuration_is_a_table(calm):
    [event] = calm.shown().Tensors("configuration")
    markdown, _ = text_of(event)
    page = markdown_to_safe_html(markdown)
    assert "<td>training.learning_rate</td><td>0.003</td>" in page
    assert "<td>model.dim</td><td>16</td>" in page
    assert "<td>data.train.samples</td><td>24</td>" in page


def test_files_are_for_their_owner_alone(calm):
    [path] = calm.event_files()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_killed_run_goes_on_in_a_file_of_its_own(wmtp, place):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    run = Run(wmtp, place, "killed", failpoint="save.rename.before:nth=2=kill", code=-signal.SIGKILL)
    [first] = run.event_files()
    before = [event.step for event in run.shown().Scalars("train/loss")]
    assert before[-1] > 4, "steps beyond the checkpoint were told"
    first.write_bytes(first.read_bytes() + first.read_bytes()[:20])  # a record that was torn
    run = Run(wmtp, place, "killed")
    assert len(run.event_files()) == 2 and run.event_files()[0] == first
    shown = run.shown()
    assert [event.step for event in shown.Scalars("train/loss")] == list(range(1, 13))
    assert_scalars_are_those_told(run, shown)


@pytest.fixture
def server(calm):
    """The address of a TensorBoard that shows the calm run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", str(calm.folder / "tb"), "--host",
                                "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env={**os.environ, "NO_PROXY": "127.0.0.1"})
    yield f"http://127.0.0.1:{port}/data/plugin"
    process.terminate()
    process.communicate(timeout=30)


def ask(address, **query):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{address}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)


def wait_for_tags(address, limit_s=60):
    """The tags of the one run, once the server has read the files."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            if tags := ask(address).get("."):
                return tags
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail(f"no tags at {address} within {limit_s} s")


def test_the_server_shows_it_all(calm, server):
    assert sorted(wait_for_tags(f"{server}/scalars/tags")) == sorted(calm.told())
    losses = ask(f"{server}/scalars/scalars", run=".", tag="train/loss")
    assert [step for _, step, _ in losses] == list(range(1, 13))
    assert {"histograms/weight", "histograms/value"} <= set(wait_for_tags(f"{server}/histograms/tags"))
    told = [line["step"] for line in calm.lines("histograms.jsonl") if line["name"] == "weight"]
    histograms = ask(f"{server}/histograms/histograms", run=".", tag="histograms/weight")
    assert [step for _, step, _ in histograms] == told
    assert set(wait_for_tags(f"{server}/text/tags")) == {"configuration", "sample/1", "sample/2"}
    texts = ask(f"{server}/text/text", run=".", tag="sample/1")
    assert {text["step"] for text in texts} == {line["step"] for line in calm.lines("samples.jsonl")}
    assert "<strong>" in texts[0]["text"]
