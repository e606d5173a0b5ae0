"""Steps of several ranks that are replayed as CUDA graphs, in the pieces between their collectives (graph_runs.py)."""
import pytest
from graph_runs import GRAPHS, PLAINLY, RHO1, WEIGHED, assert_replays_are_plain, assert_same_end, emulated_runs, of_stage, replayed, trained_critic


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return emulated_runs(wmtp, tmp_path_factory.mktemp("graphs"))


@pytest.fixture(scope="module")
def critic(runs):
    return trained_critic(runs)


@pytest.mark.parametrize("strategy, ranks, changes", [
    ("FULL_SHARD", 3, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1, "distributed__fsdp__no_sync": True}),
    ("SHARD_GRAD_OP", 2, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1, "distributed__fsdp__prefetch__forward": 2}),
    ("NO_SHARD", 2, {"distributed__fsdp__param_dtype": "fp32"}),
    ("HYBRID_SHARD", 4, {"distributed__fsdp__shard_group_size": 2, "distributed__fsdp__activation_checkpointing": "block"}),
    ("FULL_SHARD", 2, {"training__use_lora": True, "training__lora": {"rank": 4, "dropout": 0.2}, "models__policy__dtype": "bf16",
                       "distributed__fsdp__reduce_dtype": "bf16"}),
])
def test_several_ranks_replay_what_is_between_their_collectives(runs, strategy, ranks, changes):
    """A validation in between gathers for itself. Each rank has rows, and so shapes, of its own."""
    settings = {**GRAPHS, "training__eval_every_steps": 4, "distributed__fsdp__sharding_strategy": strategy, **changes}
    assert_replays_are_plain(runs, f"{strategy}-{ranks}", 10, ranks, **settings)


def test_a_rank_that_cannot_record_goes_along_with_those_that_can(runs):
    """It learns that amid the backward pass: weights are gathered and gradients on their way, all of it in the recording alone."""
    short = {**GRAPHS, "training__max_steps": 8}
    done = runs.run("one-plain", ranks=2, failpoint="step.graph.record:rank=1:nth=12=damage", **short)
    assert (done.stdout + done.stderr).count("the step cannot be recorded and runs plainly: ") == 1
    assert replayed(done)[0] > 2
    runs.run("both-plain", ranks=2, failpoint=PLAINLY, **short)
    assert_same_end(runs, "one-plain", "both-plain", 8)


@pytest.mark.parametrize("name, changes", [
    ("critic", {"experiment__stage": "critic", "training__backbone_frozen": False, "data_sampling__use_pairwise": True,
                "training__value_loss": {"type": "pairwise_ranking"}}),
    ("verifiable", {**WEIGHED, "training__loss_normalization": "weights", "training__td": {"whiten": "batch", "scope": "ranks"}}),
    ("rho1", {**RHO1, "distributed__fsdp__sharding_strategy": "SHARD_GRAD_OP"}),
])
def test_several_ranks_of_every_stage_have_the_same_bits(runs, critic, name, changes):
    """Weights that follow from sums over ranks: those collectives too are between the pieces."""
    assert_replays_are_plain(runs, name, 10, ranks=2, **of_stage(changes, critic))
