"""Ranks on two nodes: each builds the caches of its own disk, shared ones are built once, and inputs must be the same."""
import copy
import json
import re
import subprocess

import pytest
from tiny_runs import TinyRuns, environment, metrics
from two_nodes import ADDRESSES, TwoNodes, why_not

PORT = 29611


@pytest.fixture(scope="module")
def nodes():
    if reason := why_not():
        pytest.skip(f"no two nodes here: {reason}")
    with TwoNodes() as both:
        yield both


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("two_nodes"), steps=4, every=50)
    (made.folder / "data/cache").mkdir(exist_ok=True)
    return made


def train(runs, nodes, name, mounts=((), ()), code=0, **overrides):
    """A run with one rank a node; `mounts` of each. The logs of both, once both have ended with `code`."""
    processes, logs = [], []
    for node in range(2):
        env = {**environment(), "RANK": str(node), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "WMTP_RENDEZVOUS": f"tcp://{ADDRESSES[0]}:{PORT}", "WMTP_RUN_TOKEN": "cd" * 16}
        logs.append(runs.folder / f"{name}.{node}.log")
        with logs[-1].open("w") as log:
            argv = nodes.command(node, runs.command(name, dataset__cache_dir=str(runs.folder / "data/cache"), **overrides),
                                 mounts[node])
            processes.append(subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT))
    codes = [process.wait(120) for process in processes]
    texts = [log.read_text() for log in logs]
    assert codes == [code, code], "".join(texts)
    return texts


def disks(runs, name):
    """A folder for each node, seen by both as the cache folder of the runs."""
    made = [runs.folder / f"{name}.disk{node}" for node in range(2)]
    for disk in made:
        disk.mkdir()
    return made, tuple([(disk, runs.folder / "data/cache")] for disk in made)


def caches(folder):
    return sorted(path.name for path in folder.rglob("*") if path.suffix in {".widx", ".wtok"})


def losses(runs, name):
    return [line["train/loss"] for line in metrics(runs, name) if "train/loss" in line]


def test_every_node_builds_the_caches_of_its_own_disk(runs, nodes):
    own, mounts = disks(runs, "own")
    train(runs, nodes, "own", mounts)
    assert caches(own[0]) == caches(own[1]) != []
    shared = runs.folder / "data/cache"
    assert caches(shared) == []
    train(runs, nodes, "shared")
    assert caches(shared) == caches(own[0])
    left = [path for path in shared.rglob("*") if path.name.endswith(".lock") or ".tmp-" in path.name]
    assert left == []
    assert losses(runs, "shared") == losses(runs, "own")


def test_other_data_on_one_node_is_refused(runs, nodes):
    _, mounts = disks(runs, "stale")
    train_file = runs.folder / "data/train.jsonl"
    rows = [json.loads(line) for line in train_file.read_text().splitlines()]
    rows[5]["output"] = rows[5]["output"].replace("e", "a")
    stale = runs.folder / "stale.jsonl"
    stale.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mounts[1].append((stale, train_file))
    assert "rank 1: content of dataset.train" in "".join(train(runs, nodes, "stale", mounts, code=78))


def test_other_weights_on_one_node_are_refused(runs, nodes):
    base = runs.folder / "base"
    runs.run("made", checkpoint__export_on_finish="hf", training__use_lora=False)
    (runs.folder / "made/final").rename(base)
    other = runs.folder / "other_base"
    subprocess.run(["cp", "-r", base, other], check=True)
    weights = other / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1  # a bit of the last tensor
    weights.write_bytes(data)
    _, mounts = disks(runs, "weights")
    mounts[1].append((other, base))
    tuned = copy.copy(runs)
    tuned.config = runs.folder / "tuned.yaml"
    lines = runs.config.read_text().replace("path: micro", f"path: {base}").splitlines()
    tuned.config.write_text("\n".join(line for line in lines if not re.match(" *(init|params):", line)))
    texts = train(tuned, nodes, "weights", mounts, code=78)
    assert "rank 1: weights of" in "".join(texts)
