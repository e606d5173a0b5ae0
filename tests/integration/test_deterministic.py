"""runtime.deterministic: the same bits again, whatever is recomputed (on a GPU: test_emulated_gpu.py)."""
import pytest

from tiny_runs import TinyRuns, losses_by_step, state_hash

FIXED = {"runtime__deterministic": True, "runtime__threads": 2, "training__use_lora": False,
         "training__lr_scheduler__type": "constant"}  # so that a shorter run has the same steps


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("deterministic"), steps=4, every=2)
    runs.run("first", distributed__fsdp__activation_checkpointing="none", **FIXED)
    return runs


@pytest.mark.parametrize("name, level", [("again", "none"), ("light", "light"), ("block", "block")])
def test_reruns_and_recompute_levels_have_the_same_bits(runs, name, level):
    runs.run(name, distributed__fsdp__activation_checkpointing=level, **FIXED)
    assert losses_by_step(runs, name) == losses_by_step(runs, "first")
    assert state_hash(runs.checkpoint(name, 4)) == state_hash(runs.checkpoint("first", 4))


def test_a_resumed_run_has_the_same_bits(runs):
    runs.run("stopped", "--max-steps", "2", distributed__fsdp__activation_checkpointing="light", **FIXED)
    runs.run("stopped", distributed__fsdp__activation_checkpointing="block", **FIXED)
    assert state_hash(runs.checkpoint("stopped", 4)) == state_hash(runs.checkpoint("first", 4))
