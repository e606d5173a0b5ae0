"""Every stage does what it is for, on the embedded corpus, with the settings that ship, over seeds."""
import statistics

import pytest
from training_runs import Workshop

# Long enough for every bound below to hold three times over: what a run learns in fewer steps depends on the roundings of a processor.
STEPS = {"baseline": 60, "critic": 90, "verifiable": 20, "rho1": 20}


class Trained:
    """All four stages in sequence, as `make demo` has them."""

    def __init__(self, shop):
        self.shop = shop
        for stage, steps in STEPS.items():
            setattr(self, stage, self.train(stage, f"micro-{stage}", f"training.max_steps={steps}"))

    def train(self, stage, name, *overrides):
        seed = self.shop.seed
        return self.shop.train(f"micro/{stage}.yaml", name, f"runtime.seed={seed}", f"data_sampling.seed={seed}",
                               *overrides)


@pytest.fixture(scope="module", params=[1, 2, 3], ids=lambda seed: f"seed{seed}")
def trained(request, wmtp, tmp_path_factory):
    return Trained(Workshop(wmtp, tmp_path_factory.mktemp(f"seed{request.param}"), seed=request.param))


def documents(run):
    """Per decoded document of the last sample: (value gained by the token, weight of the token) of every target."""
    last = max(sample["step"] for sample in run.samples)
    for sample in run.samples:
        if sample["step"] == last:
            targets = [token for token in sample["tokens"] if token["m"]]
            yield [(here["v"] - before["v"], here["w"]) for before, here in zip(targets, targets[1:])]


def mean_weights(pairs, beyond):
    """Of the tokens that raise the value by more than `beyond`, and of those that lower it so."""
    return (statistics.mean(weight for gain, weight in pairs if gain > beyond),
            statistics.mean(weight for gain, weight in pairs if gain < -beyond))


def test_baseline_loss_falls_by_half(trained):
    losses = trained.baseline.values("val/loss")
    assert losses[-1] < 0.5 * losses[0], losses
    assert trained.baseline.values("train/epoch_loss")[-1] < 0.5 * losses[0]
    for head in range(4):
        of_head = trained.baseline.values(f"val/head{head}_loss")
        assert of_head[-1] < 0.5 * of_head[0], (head, of_head)


def test_critic_tells_right_from_wrong(trained):
    accuracy = trained.critic.values("val/pairwise_accuracy")
    assert accuracy[-1] > 0.9, accuracy
    assert trained.critic.values("val/auc")[-1] > 0.85
    assert trained.critic.values("val/mean_pos")[-1] > trained.critic.values("val/mean_neg")[-1] + 0.05


def test_verifiable_weighs_what_raises_the_value(trained):
    # Advantages look ahead (lambda .95), so the gain of the token itself is only part of its weight.
    pairs = [pair for document in documents(trained.verifiable) for pair in document]
    assert statistics.correlation(*zip(*pairs)) > 0.15
    raising, lowering = mean_weights(pairs, beyond=0)
    assert raising > 1.1 * lowering
    # The one-step error is the gain itself.
    td0 = trained.train("verifiable", "td0", "training.td.mode=td0", "training.max_steps=3")
    raising, lowering = mean_weights([pair for document in documents(td0) for pair in document], beyond=0.01)
    assert raising > 1.02 and lowering < 0.98, (raising, lowering)


def test_rho1_selects_its_share(trained):
    for head in range(4):
        share = 1.0 if head == 0 else 0.6  # the first head takes all
        ratios = trained.rho1.values(f"rho1/head{head}_ratio")
        assert ratios and all(abs(ratio - share) < 0.01 for ratio in ratios), (head, ratios)
    assert trained.rho1.values("train/weighted_ce_loss")[-1] < trained.rho1.values("val/loss")[0]
    # Selected are the tokens on which the policy is worst against the reference.
    assert all(point["rho1/head1_threshold"] > 0 for point in trained.rho1.points if "rho1/head1_threshold" in point)
