"""Runs in float8 on the emulated GPU (tests/emulated_gpu): what tests/training/float8_laws_*.cpp hold of the CPU's definition, of
the program's own path for GPUs."""
import pytest
from tiny_runs import TinyRuns, error_of, losses_by_step, state_hash

GPU = {"runtime__device": "cuda", "runtime__threads": 1, "runtime__deterministic": True, "training__lr_scheduler__type": "constant",
       "training__log_interval": 1, "training__eval_every_steps": 1000, "data_sampling__val_n_samples": 1}
FULL = {**GPU, "training__use_lora": False}
# A number of e4m3 errs by 2^-4, one of e5m2 by 2^-3; sums over a width of 32 and more average, losses over all targets once more.
NEAR_BF16 = 0.02


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    binary = wmtp.binary.parents[1] / "emulated/bin/wmtp"
    assert binary.exists(), "the tests' build makes it"
    return TinyRuns(type(wmtp)(binary), tmp_path_factory.mktemp("float8"), steps=4, every=2)


@pytest.fixture(scope="module")
def plain(runs):
    runs.run("bf16", **FULL)
    return losses_by_step(runs, "bf16")


def values(losses):
    return [next(iter(losses[step])) for step in sorted(losses)]


@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_a_run_learns_as_without_and_goes_on_exactly(runs, plain, recipe):
    said = runs.run(recipe, training__float8=recipe, distributed__fsdp__activation_checkpointing="none", **FULL)
    assert f"training.float8: {recipe} has never run on a GPU" in said.stdout + said.stderr
    losses = losses_by_step(runs, recipe)
    assert len(losses) == 4 and losses != plain
    assert values(losses) == pytest.approx(values(plain), rel=NEAR_BF16)
    runs.run(f"{recipe}-cut", "--max-steps", "2", training__float8=recipe,
             distributed__fsdp__activation_checkpointing="light", **FULL)
    runs.run(f"{recipe}-cut", training__float8=recipe, distributed__fsdp__activation_checkpointing="block", **FULL)
    assert losses_by_step(runs, f"{recipe}-cut") == losses
    assert state_hash(runs.checkpoint(f"{recipe}-cut", 4)) == state_hash(runs.checkpoint(recipe, 4))


def test_scales_are_of_the_masters_however_they_are_kept(runs):
    for strategy in "FULL_SHARD", "NO_SHARD":
        runs.run(strategy, training__float8="tensorwise", training__max_steps=3, distributed__fsdp__sharding_strategy=strategy, **FULL)
    assert losses_by_step(runs, "NO_SHARD") == losses_by_step(runs, "FULL_SHARD")


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise"])
def test_two_ranks_are_one(runs, recipe, strategy):
    """The first step's losses are of the same bytes; its gradients are summed in another order before the second."""
    settings = {**FULL, "training__float8": recipe, "training__max_steps": 2}
    if not (runs.folder / f"one-{recipe}").exists():
        runs.run(f"one-{recipe}", training__gradient_accumulation_steps=2, **settings)
    runs.run(f"two-{recipe}-{strategy}", ranks=2, distributed__fsdp__sharding_strategy=strategy, **settings)
    one, two = values(losses_by_step(runs, f"one-{recipe}")), values(losses_by_step(runs, f"two-{recipe}-{strategy}"))
    assert two[0] == pytest.approx(one[0], rel=1e-6)
    assert two[1] == pytest.approx(one[1], rel=NEAR_BF16)


@pytest.mark.parametrize("changes", [{}, {"training__lora__train_heads": True, "training__lora__scope": "trunk"}], ids=["", "heads"])
def test_adapters_learn_upon_products_in_float8(runs, changes):
    for recipe in "off", "tensorwise":
        runs.run(f"lora-{recipe}-{len(changes)}", training__float8=recipe, training__max_steps=2, training__lora__dropout=0,
                 **changes, **GPU)
    plain, scaled = (values(losses_by_step(runs, f"lora-{recipe}-{len(changes)}")) for recipe in ("off", "tensorwise"))
    assert len(plain) == 2 and plain != scaled
    assert scaled == pytest.approx(plain, rel=NEAR_BF16)


@pytest.mark.parametrize("changes, why", [
    ({"distributed__fsdp__cpu_offload": True}, "tensorwise with distributed.fsdp.cpu_offload"),
    ({"distributed__fsdp__param_dtype": "fp32"}, "tensorwise where fp32 is computed with"),
])
def test_what_does_not_go_with_it_is_refused_by_name(runs, changes, why):
    done = runs.run("refused", code=78, training__float8="tensorwise", **changes, **GPU)
    assert f"training.float8: {why}" in error_of(done)
