"""Checkpoints of real runs as models: for Python's readers, for exports, and for every key that names one."""
import json
import shutil

import pytest
from checkpoint_readers import (BasedRuns, exported, first_validation, meta_folder, read_with_dcp,
                                read_with_safetensors, score, validations)
from tiny_runs import TinyRuns, error_of, state_hash

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


@pytest.fixture(scope="module")
def full(wmtp, tmp_path_factory):
    """20 steps of the whole model on three ranks."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("full"), steps=20, every=10, lora=False)
    runs.run("run", ranks=3)
    return runs


@pytest.fixture(scope="module")
def adapted(wmtp, tmp_path_factory, full):
    """Adapters on the model that `full` trained; the second run saves the adapters alone."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("lora"), steps=20, every=10, lora=True)
    base = {"models__policy__path": str(full.checkpoint("run", 20)), "models__policy__init": "pretrained",
            "models__policy__params": {}}
    runs.base = base
    runs.run("run", ranks=2, **base)
    runs.run("small", ranks=2, checkpoint__save_lora_only=True, **base)
    return runs


def test_python_reads_what_three_ranks_wrote(wmtp, full, tmp_path):
    tensors = exported(wmtp, full.checkpoint("run", 20), tmp_path / "hf", "--keep-mtp")
    by_dcp = read_with_dcp(full.checkpoint("run", 20) / "model", tensors)
    by_hand = read_with_safetensors(full.checkpoint("run", 20) / "model",
                                    {name: tuple(t.shape) for name, t in by_dcp.items()})
    assert set(by_dcp) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(tensor, by_dcp[name]), name
        assert torch.equal(tensor, by_hand[name]), name
    moments = read_with_dcp(full.checkpoint("run", 20) / "optim", [])
    assert {name.rpartition(".")[0].removeprefix("optim.state.") for name in moments} == set(tensors)
    assert all(torch.isfinite(m).all() and m.abs().sum() > 0 for m in moments.values())


def test_transformers_reads_the_export_of_a_checkpoint(wmtp, full, tmp_path):
    transformers = pytest.importorskip("transformers")
    tensors = exported(wmtp, full.checkpoint("run", 20), tmp_path / "hf")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, tensors[name]), name
    assert (tmp_path / "hf/tokenizer.json").exists(), "the tokenizer of the run goes along"
    assert torch.isfinite(model(torch.tensor([[1, 5, 9]])).logits).all()


def test_scores_of_a_checkpoint_are_those_of_its_export(wmtp, full, tmp_path):
    exported(wmtp, full.checkpoint("run", 20), tmp_path / "hf", "--keep-mtp")
    newest = score(wmtp, full.checkpoint("run", 20), full)
    assert newest == pytest.approx(score(wmtp, tmp_path / "hf", full), rel=1e-6)
    assert newest != pytest.approx(score(wmtp, full.checkpoint("run", 10), full), rel=1e-6)


def test_pointers_and_run_folders_are_models(wmtp, full, tmp_path):
    newest = exported(wmtp, full.checkpoint("run", 20), tmp_path / "a")
    for number, source in enumerate(["run", "run/checkpoints", "run/checkpoints/tiny-latest",
                                     "run/checkpoints/tiny-final"]):
        other = exported(wmtp, full.folder / source, tmp_path / str(number))
        assert all(torch.equal(newest[name], other[name]) for name in newest)
    older = exported(wmtp, full.checkpoint("run", 10), tmp_path / "b")
    assert any(not torch.equal(newest[name], older[name]) for name in newest)
    pointer = full.folder / "broken-latest"
    pointer.write_text("nowhere\n")
    assert "no checkpoint" in wmtp.error("checkpoint", "export", pointer, "--format", "hf", "--out",
                                         tmp_path / "c", code=78)["message"]


def test_a_stale_final_is_passed_over(wmtp, full, tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    shutil.copytree(full.folder / "run", run)

    def taken():
        return wmtp.json("checkpoint", "export", run, "--format", "hf", "--no-verify", "--out", out)
    exported(wmtp, run / "checkpoints/tiny-10steps", run / "final")
    result = taken()
    assert (result["source"], result["step"]) == (str(run / "checkpoints/tiny-20steps"), 20)
    card = (out / "README.md").read_text()
    assert f"- Source: {run}/checkpoints/tiny-20steps" in card and "- Optimizer steps: 20" in card
    exported(wmtp, run / "checkpoints/tiny-20steps", run / "final")
    result = taken()
    assert (result["source"], result["step"]) == (str(run / "final"), 20)
    (run / "final/wmtp_export.json").unlink()
    done = wmtp.run("checkpoint", "export", run, "--format", "hf", "--no-verify", "--out", out)
    assert f"{run}/final" in done.stdout and "is not known" in done.stderr


def test_the_export_of_a_run_may_be_replaced_by_the_next(wmtp, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=2, every=2, lora=False)
    for seed in (1, 2):
        runs.run("run", "--resume", "never", checkpoint__export_on_finish="hf", runtime__seed=seed)
        mark = json.loads((runs.folder / "run/final/wmtp_export.json").read_text())
        assert mark == {"format": "hf", "source": str(runs.folder / "run"), "step": 2, "model": "tiny"}


def test_a_damaged_checkpoint_is_no_model(wmtp, full, tmp_path):
    copy = tmp_path / "tiny-20steps"
    shutil.copytree(full.checkpoint("run", 20), copy)
    path = next((copy / "model").iterdir())
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    message = wmtp.error("checkpoint", "export", copy, "--format", "hf", "--out", tmp_path / "out", code=74)["message"]
    assert path.name in message and "bytes" in message


def test_adapters_in_a_checkpoint(wmtp, adapted, tmp_path):
    """Whole or alone they are the same model, and merge to the same weights."""
    whole, small = adapted.checkpoint("run", 20), adapted.checkpoint("small", 20)
    sizes = [sum(f.stat().st_size for f in (c / "model").iterdir()) for c in (whole, small)]
    assert sizes[1] < sizes[0] / 4
    assert json.loads((small / "manifest.json").read_text())["kind"] == "lora"
    merged = [exported(wmtp, source, tmp_path / str(i), "--merge-lora", "--keep-mtp")
              for i, source in enumerate([whole, small])]
    assert set(merged[0]) == set(merged[1])
    for name in merged[0]:
        assert torch.equal(merged[0][name], merged[1][name]), name
    wmtp.run("checkpoint", "merge-lora", small, "--dtype", "fp32", "--out", tmp_path / "m")
    wmtp.run("checkpoint", "export", small, "--format", "peft", "--out", tmp_path / "peft")
    adapter = json.loads((tmp_path / "peft/adapter_config.json").read_text())
    assert adapter["r"] == 4 and adapter["base_model_name_or_path"] == adapted.base["models__policy__path"]


def test_adapters_alone_need_their_base(wmtp, adapted, full, tmp_path):
    copy = tmp_path / "tiny-20steps"
    shutil.copytree(adapted.checkpoint("small", 20), copy)
    hidden = full.folder / "away"
    full.checkpoint("run", 20).rename(hidden)
    try:
        message = wmtp.error("checkpoint", "merge-lora", copy, "--out", tmp_path / "out", code=78)["message"]
        assert "adapters only" in message and "tiny-20steps" in message
    finally:
        hidden.rename(full.checkpoint("run", 20))


@pytest.fixture(scope="module")
def fresh(full):
    """The first validation of a run that starts from nothing."""
    return first_validation(full, "fresh", None)


def test_a_warm_start_takes_the_weights_alone(full, fresh):
    """The first validation of a run that starts from a checkpoint is the last one of the run before."""
    last = validations(full.run("again", "--resume", full.checkpoint("run", 10)))[-1]
    assert last < 0.99 * fresh
    for path in (full.checkpoint("again", 20), full.folder / "again"):
        assert first_validation(full, f"warm-{path.name}", path) == pytest.approx(last, rel=1e-6)


def test_a_warm_start_from_adapters_alone_has_them_in_its_weights(full, adapted, fresh):
    small = adapted.checkpoint("small", 20)
    points = [json.loads(line) for line in (adapted.folder / "small/metrics.jsonl").read_text().splitlines()]
    losses = {point["step"]: point["val/loss"] for point in points if "val/loss" in point}
    bare = first_validation(full, "warm-base", adapted.base["models__policy__path"])
    warm = first_validation(full, "warm-lora", small)
    assert warm == pytest.approx(losses[20], rel=1e-6)
    assert abs(warm - bare) > 1e-3 * bare and abs(warm - fresh) > 1e-2 * fresh, "what it could be taken for"


def test_a_warm_start_from_a_pth_file(wmtp, full, fresh, tmp_path):
    points = [json.loads(line) for line in (full.folder / "run/metrics.jsonl").read_text().splitlines()]
    last = [point["val/loss"] for point in points if "val/loss" in point][-1]
    meta_folder(exported(wmtp, full.checkpoint("run", 20), tmp_path / "hf", "--keep-mtp"), tmp_path / "meta")
    warm = first_validation(full, "warm-pth", tmp_path / "meta")
    # Three ranks validated the run before; one does now.
    assert warm == pytest.approx(last, rel=1e-5) and abs(warm - fresh) > 1e-2 * fresh
    wmtp.run("checkpoint", "export", full.checkpoint("run", 20), "--format", "pt", "--dtype", "fp32",
             "--out", tmp_path / "pt")
    assert first_validation(full, "warm-pt", tmp_path / "pt/checkpoint.pt") == warm


def test_a_critic_checkpoint_brings_its_value_head(wmtp, full, tmp_path):
    (tmp_path / "critic").mkdir()
    critic = TinyRuns(wmtp, tmp_path / "critic", steps=6, every=3, lora=False, stage="critic")
    critic.run("run", training__value_loss={"type": "mse", "bias_init": 0.5}, training__backbone_frozen=False,
               data_sampling__use_pairwise=True)
    checkpoint = critic.checkpoint("run", 6)
    (tmp_path / "verifiable").mkdir()
    policy = TinyRuns(wmtp, tmp_path / "verifiable", steps=4, every=2, lora=False, stage="verifiable")
    policy.run("joint", training__value={"source": "joint", "init_from": str(checkpoint)})
    policy.run("model", training__value={"source": "model"}, models__value_model__checkpoint_path=str(checkpoint))
    done = policy.run("none", code=78, training__value={"source": "joint", "init_from": str(full.checkpoint("run", 20))})
    assert "no value head" in error_of(done)


def test_a_reference_may_be_a_checkpoint(wmtp, full, tmp_path):
    rho1 = TinyRuns(wmtp, tmp_path, steps=4, every=2, lora=False, stage="rho1")
    rho1.run("run", models__reference__path=str(full.folder / "run"))
    rho1.run("same", models__reference__path=str(full.checkpoint("run", 20)))
    assert state_hash(rho1.checkpoint("run", 4)) == state_hash(rho1.checkpoint("same", 4))


# ---- which base it was

@pytest.fixture(scope="module")
def based(wmtp, tmp_path_factory, full):
    return BasedRuns(wmtp, tmp_path_factory.mktemp("based"), full)


@pytest.fixture(scope="module")
def moved(based, tmp_path_factory):
    """The base elsewhere, cut into other files."""
    folder = tmp_path_factory.mktemp("moved") / "base"
    shutil.copytree(based.base, folder)
    tensors = safetensors_torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, some in parts.items():
        safetensors_torch.save_file({name: tensors[name] for name in some}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, some in parts.items() for name in some}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.fixture(scope="module")
def other(based, tmp_path_factory):
    """The same shapes, one value of one tensor changed."""
    folder = tmp_path_factory.mktemp("other") / "base"
    shutil.copytree(based.base, folder)
    tensors = safetensors_torch.load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][3] += 1
    safetensors_torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("origin", ["whole", "small"])
def test_a_base_that_was_moved_is_the_same_base(based, moved, origin):
    assert len(based.fingerprint(origin)) == 64
    done = based.go_on(f"moved-{origin}", moved, origin)
    assert "models.policy.path" in done.stderr, "it is told"
    assert state_hash(based.runs.checkpoint(f"moved-{origin}", 20)) == state_hash(based.runs.checkpoint(origin, 20))
    assert based.fingerprint(f"moved-{origin}") == based.fingerprint(origin)


@pytest.mark.parametrize("ranks", [1, 2])
def test_adapters_are_not_loaded_onto_another_base(based, other, ranks):
    done = based.go_on(f"other-{ranks}", other, "small", ranks=ranks, code=78,
                       checkpoint__allow_config_change=["models.policy.path"])
    message = error_of(done)
    assert "adapters only" in done.stdout and "models.policy.path" in message
    assert based.fingerprint("small") in message and len([w for w in message.replace(",", "").split() if len(w) == 64]) == 2


def test_another_base_under_whole_weights_needs_a_word(based, other):
    done = based.go_on("other-whole", other, "whole", code=78)
    assert based.fingerprint("whole") in error_of(done) and "allow_config_change" in done.stdout
    done = based.runs.run("other-whole", **based.keys(other, "whole"),
                          checkpoint__allow_config_change=["models.policy.path"])
    assert state_hash(based.runs.checkpoint("other-whole", 20)) == state_hash(based.runs.checkpoint("whole", 20))


def test_commands_check_the_base_too(wmtp, based, moved, other, tmp_path):
    small = based.runs.checkpoint("small", 20)
    by_name = exported(wmtp, small, tmp_path / "a", "--merge-lora", "--keep-mtp")
    by_place = exported(wmtp, small, tmp_path / "b", "--merge-lora", "--keep-mtp", "--base-model", moved)
    assert all(torch.equal(by_name[name], by_place[name]) for name in by_name)
    error = wmtp.error("checkpoint", "merge-lora", small, "--base-model", other, "--out", tmp_path / "c", code=78)
    assert based.fingerprint("small") in error["message"] and "--base-model" in error["hint"]


def test_drawn_weights_are_a_base_by_seed_and_shape(wmtp, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=4, every=2)
    runs.run("a", checkpoint__save_lora_only=True)
    runs.run("b", checkpoint__save_lora_only=True, runtime__seed=7)
    bases = [json.loads((runs.checkpoint(name, 2) / "manifest.json").read_text())["fingerprints"]["base"] for name in "ab"]
    assert bases[0] != bases[1]


# ---- base_model_path of frozen models

def test_a_reference_upon_a_base_that_was_moved(wmtp, based, moved, other, tmp_path):
    rho1 = TinyRuns(wmtp, tmp_path, steps=4, every=2, lora=False, stage="rho1")
    small = {"models__reference__checkpoint_path": str(based.runs.checkpoint("small", 20))}
    wmtp.run("checkpoint", "export", based.runs.checkpoint("small", 20), "--format", "peft", "--out", tmp_path / "peft")
    rho1.run("named", **small)
    rho1.run("moved", models__reference__base_model_path=str(moved), **small)
    rho1.run("peft", models__reference__path=str(tmp_path / "peft"), models__reference__base_model_path=str(moved))
    for name in ("moved", "peft"):
        assert state_hash(rho1.checkpoint(name, 4)) == state_hash(rho1.checkpoint("named", 4))
    done = rho1.run("other", models__reference__base_model_path=str(other), code=78, **small)
    assert based.fingerprint("small") in error_of(done)
    done = rho1.run("no-adapter", models__reference__path=str(based.base),
                    models__reference__base_model_path=str(moved), code=78)
    assert "no adapter" in error_of(done)
    hidden = based.base.with_name("away")
    based.base.rename(hidden)
    try:
        done = rho1.run("gone", code=78, **small)
        assert "adapters only" in error_of(done) and "base_model_path" in done.stdout
        rho1.run("found", models__reference__base_model_path=str(hidden), **small)
    finally:
        hidden.rename(based.base)


def test_a_value_model_upon_a_base_that_was_moved(wmtp, based, moved, tmp_path):
    (tmp_path / "critic").mkdir()
    critic = TinyRuns(wmtp, tmp_path / "critic", steps=4, every=2, stage="critic")
    critic.run("run", **based.keys(based.base, "small"), training__value_loss={"type": "mse", "bias_init": 0.5},
               data_sampling__use_pairwise=True)
    (tmp_path / "policy").mkdir()
    policy = TinyRuns(wmtp, tmp_path / "policy", steps=2, every=2, lora=False, stage="verifiable")
    model = {"training__value": {"source": "model"},
             "models__value_model__checkpoint_path": str(critic.checkpoint("run", 4))}
    policy.run("named", **model)
    policy.run("moved", models__value_model__base_model_path=str(moved), **model)
    assert state_hash(policy.checkpoint("moved", 2)) == state_hash(policy.checkpoint("named", 2))
