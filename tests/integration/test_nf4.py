"""quantize: nf4. Adapters upon a base in 4 bits train as upon the same numbers written out, at any level and on any number of ranks,
resume to the bit, in every stage."""
import shutil

import pytest
import torch
from nf4_numbers import through_nf4
from safetensors.torch import load_file, save_file
from tiny_runs import TinyRuns, error_of, losses_by_step, state_hash

PLAIN = {"training__lr_scheduler__type": "constant", "training__log_interval": 1}
NF4 = {"models__policy__quantize": "nf4", **PLAIN}


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A base on disk that has learned a little, and a run upon it in 4 bits."""
    made = TinyRuns(wmtp, tmp_path_factory.mktemp("nf4"), steps=4, every=2)
    made.run("base", training__use_lora=False, checkpoint__export_on_finish="hf")
    made.base = {"models__policy__path": str(made.folder / "base/final"), "models__policy__init": "pretrained",
                 "models__policy__params": {}}
    made.run("first", distributed__fsdp__activation_checkpointing="none", **NF4, **made.base)
    return made


def written_out(runs, dtype):
    """The folder of the base with its projection matrices as NF4 gives them back, in fp32."""
    folder = runs.folder / f"written-{dtype}"
    shutil.copytree(runs.folder / "base/final", folder)
    changed = 0
    for file in folder.glob("*.safetensors"):
        numbers = {name: value.to(dtype).float() for name, value in load_file(file).items()}
        matrices = {name for name in numbers if name.endswith("_proj.weight")}
        save_file({name: torch.from_numpy(through_nf4(value.numpy())) if name in matrices else value
                   for name, value in numbers.items()}, file, {"format": "pt"})
        changed += len(matrices)
    assert changed == 7 * 5
    return folder


@pytest.mark.parametrize("name, dtype", [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_it_trains_as_upon_the_same_numbers_written_out(runs, name, dtype):
    runs.run(f"nf4-{name}", models__policy__dtype=name, **NF4, **runs.base)
    plain = {**runs.base, "models__policy__path": str(written_out(runs, dtype)), "models__policy__dtype": "fp32"}
    runs.run(f"plain-{name}", **PLAIN, **plain)
    losses = losses_by_step(runs, f"nf4-{name}")
    assert len(losses) == 4 and losses == losses_by_step(runs, f"plain-{name}")
    if name == "fp32":  # the control: the base as it is
        runs.run("none", **PLAIN, **runs.base)
        assert losses != losses_by_step(runs, "none")


@pytest.mark.parametrize("level", ["light", "block"])
def test_levels_have_the_same_bits(runs, level):
    runs.run(level, distributed__fsdp__activation_checkpointing=level, **NF4, **runs.base)
    assert losses_by_step(runs, level) == losses_by_step(runs, "first")
    assert state_hash(runs.checkpoint(level, 4)) == state_hash(runs.checkpoint("first", 4))


def test_a_resumed_run_has_the_same_bits_and_checkpoints_hold_adapters(runs):
    runs.run("stopped", "--max-steps", "2", **NF4, **runs.base)
    runs.run("stopped", **NF4, **runs.base)
    assert state_hash(runs.checkpoint("stopped", 4)) == state_hash(runs.checkpoint("first", 4))
    names = [name for file in runs.checkpoint("stopped", 4).rglob("*.safetensors") for name in load_file(file)]
    assert any(".lora_A." in name for name in names) and not any("proj.weight" in name and "lora" not in name for name in names)


def test_another_number_of_ranks_goes_on_from_it(runs):
    sharded = {"distributed__fsdp__sharding_strategy": "FULL_SHARD", **NF4, **runs.base, "training__batch_size": 1,
               "training__global_batch_size": 6}
    runs.run("resharded", "--max-steps", "2", ranks=2, **{**sharded, "training__global_batch_size": 6})
    runs.run("resharded", ranks=3, **sharded)
    runs.run("alone", **sharded)
    for step, losses in losses_by_step(runs, "alone").items():
        assert min(losses_by_step(runs, "resharded")[step]) == pytest.approx(min(losses), rel=1e-5)


def test_the_key_does_not_change_within_a_run(runs):
    shutil.copytree(runs.folder / "first", runs.folder / "changed")
    done = runs.run("changed", "--max-steps", "6", code=78, **PLAIN, **runs.base)
    assert "models.policy.quantize" in error_of(done)


def test_it_is_refused_by_name_where_it_cannot_be(runs, wmtp):
    words = ["validate", "--config", runs.config, "--defaults", "none", "--override", "models.policy.quantize=nf4"]
    merged = wmtp.error(*words, "--override", "checkpoint.export_on_finish=auto", code=78)["message"]
    assert "would merge adapters into a base in NF4" in merged
    wmtp.run(*words)


def test_the_plan_shows_it_where_it_runs(runs, wmtp):
    words = ["plan", "--config", runs.config, "--defaults", "none", "--override", f"models.policy.path={runs.folder / 'base/final'}",
             "--override", "models.policy.init=pretrained", "--override", "models.policy.params={}", "--gpu"]

    def ways(*more):
        line = next(one for one in wmtp.json_lines(*words, *more) if one["type"] == "plan")
        return {one["name"]: one["current"] for one in line["choices"] if one["choice"] == "training"}
    assert ways("cpu") == {"full": False, "LoRA, rank 4": True, "LoRA, rank 4, on NF4": False}
    assert ways("cpu", "--override", "models.policy.quantize=nf4") == {
        "full": False, "LoRA, rank 4": False, "LoRA, rank 4, on NF4": True}
    assert ways("h200", "--override", "runtime.device=auto") == {
        "full": False, "LoRA, rank 4": True, "LoRA, rank 4, on NF4": False}


def test_a_merged_export_has_the_numbers_of_nf4(runs):
    runs.run("merged", **{**NF4, **runs.base, "training__learning_rate": 1e-30, "checkpoint__export_on_finish": "hf"})
    for file in (runs.folder / "merged/final").glob("*.safetensors"):
        source = load_file(runs.folder / "base/final" / file.name)
        for name, value in load_file(file).items():
            numbers = source[name].float()
            numbers = torch.from_numpy(through_nf4(numbers.numpy())) if name.endswith("_proj.weight") else numbers
            assert torch.allclose(value, numbers.to(value.dtype), rtol=0, atol=1e-25), name  # adapters of that size


@pytest.mark.parametrize("stage, words", [
    ("critic", ("training.backbone_frozen=true", "models.policy.quantize=nf4")),
    ("verifiable", ("models.policy.quantize=nf4", "models.value_model.quantize=nf4")),
    ("rho1", ("models.policy.quantize=nf4", "models.reference.quantize=nf4")),
])
def test_every_stage_trains_upon_it(workshop, stage, words):
    few = ("training.max_steps=3", "training.eval_every_steps=3", "training.log_interval=1", "training.eval_at_start=false",
           "training.use_lora=true", "models.policy.path=runs/micro-baseline/final", "models.policy.init=pretrained")
    run = workshop.train(f"micro/{stage}.yaml", f"nf4-{stage}", *few, *words)
    losses = run.values("train/loss")
    assert len(losses) == 3 and run.values("train/grad_norm")[-1] > 0
    assert (run.final / "adapter_model.safetensors").exists()
    if stage != "rho1":
        return
    key = words[1].split("=")[0]
    plain = workshop.train(f"micro/{stage}.yaml", f"nf4-{stage}-plain", *few, words[0], f"{key}=none")
    again = workshop.train(f"micro/{stage}.yaml", f"nf4-{stage}-again", *few, *words)
    assert again.values("train/loss") == losses != plain.values("train/loss"), "a cache of signals mixes models"
