"""Whole runs with HYBRID_SHARD: which ranks make a group, what is refused, other strategies and numbers of ranks on its
checkpoints, and who writes them."""
import json
import subprocess

import pytest

from tiny_runs import TinyRuns, environment, error_of, metrics

HYBRID = {"distributed__fsdp__sharding_strategy": "HYBRID_SHARD"}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("hybrid"), steps=8, every=4)


def losses_of(runs, name):
    return {point["step"]: point["train/loss"] for point in metrics(runs, name) if "train/loss" in point}


def run_on_nodes(runs, name, nodes, meeting, **overrides):
    """(code, output) of each rank. `nodes`: the ranks of each, as a launcher on several machines would say."""
    world = sum(map(len, nodes))
    started = []
    for node, ranks in enumerate(nodes):
        for local, rank in enumerate(ranks):
            env = {**environment(), "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(local),
                   "LOCAL_WORLD_SIZE": str(len(ranks)), "GROUP_RANK": str(node),
                   "WMTP_RENDEZVOUS": f"file://{meeting}", "WMTP_RUN_TOKEN": "ab" * 16}
            started.append(subprocess.Popen(runs.command(name, **HYBRID, **overrides), stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True, env=env))
    texts = [process.communicate(timeout=120)[0] for process in started]
    return [(process.returncode, text) for process, text in zip(started, texts)]


def test_the_ranks_of_a_node_are_a_group_and_the_first_one_writes(runs, tmp_path):
    ends = run_on_nodes(runs, "nodes", [[0, 1], [2, 3]], tmp_path / "meeting", training__log_interval=1)
    assert [code for code, _ in ends] == [0] * 4, ends[0][1]
    assert "HYBRID_SHARD: 2 groups of 2 ranks" in ends[0][1]
    manifest = json.loads((runs.checkpoint("nodes", 8) / "manifest.json").read_text())
    assert manifest["strategy"] == "HYBRID_SHARD" and manifest["world_size"] == 4
    writers = {path.name.split("-")[1] for path in runs.checkpoint("nodes", 8).rglob("shard-*")}
    assert len(writers) == 2, writers
    # The same maths as other strategies, in another order of sums.
    runs.run("full", ranks=4, training__log_interval=1)
    assert losses_of(runs, "nodes") == {step: pytest.approx(loss, rel=1e-5) for step, loss in losses_of(runs, "full").items()}


@pytest.mark.parametrize("nodes, fact", [
    ([[0, 2], [1, 3]], "do not follow each other"),
    ([[0, 1], [2], [3]], "ranks of a node (distributed.fsdp.shard_group_size: null)")])
def test_nodes_that_make_no_groups_are_refused(nodes, fact, runs, tmp_path):
    ends = run_on_nodes(runs, "refused", nodes, tmp_path / "meeting")
    assert {code for code, _ in ends} == {78}, ends
    assert any(fact in text for _, text in ends), ends


def test_groups_that_do_not_divide_the_ranks_are_refused(runs):
    done = runs.run("odd", ranks=3, code=78, distributed__fsdp__shard_group_size=2, **HYBRID)
    assert "groups of 2 do not divide the 3 ranks of the run" in error_of(done)


def test_other_ranks_and_strategies_go_on(runs):
    """Groups are counted anew where the size is null, and the samples go on where they were."""
    size = {"distributed__fsdp__shard_group_size": 2}
    keys = {"training__log_interval": 1, "training__max_steps": 8, "training__lr_scheduler__type": "constant"}
    runs.run("calm", ranks=4, **keys, **HYBRID, **size)
    runs.run("moved", ranks=4, **{**keys, "training__max_steps": 2}, checkpoint__save_every_steps=2, **HYBRID, **size)
    runs.run("moved", ranks=2, **{**keys, "training__max_steps": 4}, checkpoint__save_every_steps=2,
             training__gradient_accumulation_steps=2, **HYBRID)
    runs.run("moved", ranks=4, **{**keys, "training__max_steps": 6}, checkpoint__save_every_steps=2,
             distributed__fsdp__sharding_strategy="SHARD_GRAD_OP")
    runs.run("moved", ranks=4, **keys, checkpoint__save_every_steps=2, **HYBRID, **size)
    moved, calm = losses_of(runs, "moved"), losses_of(runs, "calm")
    assert sorted(moved) == sorted(calm) == list(range(1, 9))
    assert moved == {step: pytest.approx(loss, rel=1e-4) for step, loss in calm.items()}
    refused = runs.run("moved", ranks=3, code=78, **{**keys, "training__max_steps": 12}, **HYBRID, **size)
    assert "do not divide the 3 ranks" in error_of(refused)
