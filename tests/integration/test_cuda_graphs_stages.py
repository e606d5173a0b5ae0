"""Steps of critic, verifiable and rho1 that are replayed as CUDA graphs (graph_runs.py)."""
import pytest
from graph_runs import RHO1, WEIGHED, assert_replays_are_plain, assert_same_end, emulated_runs, of_stage, replayed, trained_critic


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return emulated_runs(wmtp, tmp_path_factory.mktemp("graphs"))


@pytest.fixture(scope="module")
def critic(runs):
    return trained_critic(runs)


@pytest.mark.parametrize("name, changes", [
    ("critic-pairs", {"experiment__stage": "critic", "training__backbone_frozen": False, "data_sampling__use_pairwise": True,
                      "training__value_loss": {"type": "pairwise_ranking"}}),
    ("critic-lambda", {"experiment__stage": "critic", "models__policy__dtype": "bf16",
                       "training__value_loss": {"type": "lambda_return", "lambda_schedule": {"warmup_steps": 2, "decay_steps": 8}}}),
    ("joint", {"experiment__stage": "verifiable", "training__value": {"source": "joint"}, "training__value_head": {"dropout": 0.1}}),
    ("model", WEIGHED),
    ("uncached-nf4", {**WEIGHED, "training__signal_cache": False, "training__loss_normalization": "weights",
                      "models__value_model__quantize": "nf4"}),
    ("random", {**WEIGHED, "training__td": {"control": "random"}}),
    ("rho1", RHO1),
])
def test_steps_of_every_stage_have_the_same_bits(runs, critic, name, changes):
    """Signals of a frozen model are the run's own in the first epoch, and the cache's then."""
    assert_replays_are_plain(runs, name, 14, **of_stage(changes, critic))


def test_a_resumed_run_whitens_with_the_same_tracker(runs, critic):
    settings = of_stage({**WEIGHED, "training__td": {"mode": "gae", "whiten": "ema"},
                         "training__lr_scheduler": {"type": "constant", "warmup_ratio": 0}, "training__max_steps": 12}, critic)
    runs.run("ema-whole", **settings)
    runs.run("ema-cut", "--max-steps", "6", **settings)
    hits, steps, *_ = replayed(runs.run("ema-cut", **settings))
    assert steps == 6 and hits > 0
    assert_same_end(runs, "ema-cut", "ema-whole", 12)
