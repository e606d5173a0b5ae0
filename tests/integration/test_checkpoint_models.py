"""Checkpoints of real runs as models: for Python's readers, for exports, and for every key that names one."""
import json
import shutil

import pytest

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


def exported(wmtp, source, out, *flags):
    wmtp.run("checkpoint", "export", source, "--format", "hf", "--dtype", "fp32", "--out", out, *flags)
    tensors = {}
    for path in out.glob("*.safetensors"):
        tensors.update(safetensors_torch.load_file(path))
    return tensors


def read_with_dcp(folder, names):
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load
    reader = HuggingFaceStorageReader(str(folder))
    state = {name: torch.empty(tuple(m.size), dtype=m.properties.dtype)
             for name, m in reader.read_metadata().state_dict_metadata.items()}
    assert set(names) <= set(state)
    load(state, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    return state


def read_with_safetensors(folder, shapes):
    """The pieces put together by the offsets in the files' own metadata."""
    whole = {name: torch.full(shape, float("nan")) for name, shape in shapes.items()}
    for path in folder.glob("*.safetensors"):
        with safetensors_torch.safe_open(path, framework="pt") as file:
            info = json.loads(file.metadata()["DCP_SHARDING_INFO"])
            for name in file.keys():
                piece = file.get_tensor(name)
                at = tuple(slice(o, o + n) for o, n in zip(info[name]["saved_offsets"], piece.shape))
                whole[name][at] = piece
    return whole


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


def score(wmtp, model, runs):
    rows = runs.folder / "scored.jsonl"
    rows.write_text("".join((runs.folder / "data/validation.jsonl").read_text().splitlines(True)[:3]))
    lines = wmtp.run("--json", "score", "--model", model, "--data", rows, "--device", "cpu").stdout.splitlines()
    return json.loads(lines[-1])["nll_mean"]


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


def test_a_warm_start_takes_the_weights_alone(full, adapted):
    """The first validation of a run that starts from a checkpoint is the last one of the run before."""
    def validations(done):
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [line["loss"] for line in lines if line["type"] == "eval"]

    last = validations(full.run("again", "--resume", full.checkpoint("run", 10)))[-1]
    for source, path in ((full, full.checkpoint("again", 20)), (full, full.folder / "again")):
        done = source.run(f"warm-{path.name}", training__eval_at_start=True, training__max_steps=1,
                          models__policy__path=str(path), models__policy__init="pretrained",
                          models__policy__params={})
        assert validations(done)[0] == pytest.approx(last, rel=1e-6)
    small = adapted.checkpoint("small", 20)
    done = full.run("warm-lora", training__max_steps=1, models__policy__path=str(small),
                    models__policy__init="pretrained", models__policy__params={})
    assert validations(done)


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
