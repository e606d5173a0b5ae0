"""The configurations in configs/: all are valid, those for a laptop train."""
import pytest
from training_runs import CONFIGS, Workshop

SHIPPED = """
    defaults.yaml baseline/baseline.yaml baseline/baseline_lora.yaml baseline/baseline_local.yaml
    critic/critic.yaml critic/critic_pairwise.yaml critic/critic_local.yaml
    verifiable/verifiable.yaml verifiable/verifiable_lora.yaml verifiable/verifiable_gae.yaml verifiable/verifiable_local.yaml
    rho1/rho1.yaml rho1/rho1_lora.yaml rho1/rho1_local.yaml
    ntp/qwen3_0_6b.yaml ntp/llama_3_1_8b.yaml ntp/text_local.yaml
    micro/baseline.yaml micro/critic.yaml micro/verifiable.yaml micro/rho1.yaml""".split()
STAGE_FILES = [name for name in SHIPPED if name != "defaults.yaml"]


def test_the_list_is_complete():
    assert sorted(str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")) == sorted(SHIPPED)


@pytest.mark.parametrize("name", STAGE_FILES)
def test_it_is_valid(wmtp, name):
    said = wmtp.run("validate", "--no-check-paths", "--config", CONFIGS / name, "--world-size", 8)
    assert said.stdout.startswith("OK ")


def resolved(wmtp, name):
    lines = wmtp.run("validate", "--no-check-paths", "--resolved", "--config", CONFIGS / name).stdout.splitlines()
    return [line.strip() for line in lines]


@pytest.mark.parametrize("name,wanted", [
    ("critic/critic.yaml", ["sharding_strategy: NO_SHARD", "backbone_frozen: true", "bias_init: 0.5"]),
    ("critic/critic_pairwise.yaml", ["sharding_strategy: NO_SHARD", "type: pairwise_ranking", "rank: 32"]),
    ("verifiable/verifiable.yaml", ["mode: td0", "source: joint", "beta: 0.9"]),
    ("verifiable/verifiable_gae.yaml", ["mode: gae", "source: model", "whiten: ema"]),
    ("rho1/rho1_lora.yaml", ["use_lora: true", "k_percent: 0.6", "first_head: always"]),
    *((f"ntp/{name}.yaml", ["save_every_steps: 50"]) for name in ("qwen3_0_6b", "llama_3_1_8b", "text_local")),
])
def test_it_says_what_it_is_for(wmtp, name, wanted):
    lines = resolved(wmtp, name)
    assert [line for line in wanted if line not in lines] == []


@pytest.fixture(scope="module")
def local(wmtp, tmp_path_factory):
    return Workshop(wmtp, tmp_path_factory.mktemp("local"), rows=400)


def test_the_local_ones_train_in_sequence(local):
    for name in ["baseline/baseline_local.yaml", "critic/critic_local.yaml", "verifiable/verifiable_local.yaml",
                 "rho1/rho1_local.yaml", "ntp/text_local.yaml"]:
        run = local.train(name, name.split("/")[1].removesuffix(".yaml").replace("_", "-"), "training.max_steps=5",
                          "training.log_interval=1")
        losses = run.values("train/loss")
        assert len(losses) == 5 and run.final.exists(), name
        if not name.startswith(("critic", "verifiable")):  # which begin with a model that knows something
            assert losses[-1] < losses[0], (name, losses)
