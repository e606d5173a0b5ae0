"""Checkpoints of the commit engine as PyTorch's distributed checkpoint and safetensors read them, and the commands
that look at them."""
import itertools
import json
import subprocess

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

WORLDS = [1, 2, 3, 4]


def state_of(seed):
    """Matrices that ranks cut in mid-row, rows longer than a rank's share, vectors, several dtypes."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"model.embed_tokens.weight": (10, 6), "model.norm.weight": (7,), "model.layers.0.mlp.up_proj.weight": (33, 17),
              "model.wide.weight": (2, 401), "value_head.weight": (1, 5), "one": (1,)}
    model = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    model["frozen.weight"] = torch.randn((5, 9), generator=generator).to(torch.bfloat16)
    model["half.weight"] = torch.randn((3, 3), generator=generator).to(torch.float16)
    optim = {f"optim.state.{name}.exp_avg": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return model, optim


def equal(ours, theirs):
    return ours.keys() == theirs.keys() and all(
        ours[k].dtype == theirs[k].dtype and torch.equal(ours[k], theirs[k]) for k in theirs)


@pytest.fixture
def probe(wmtp):
    binary = wmtp.binary.parent / "wmtp_checkpoint_probe"
    if not binary.exists():
        pytest.fail(f"no {binary}: build the tests first")

    def run(*args):
        subprocess.run([str(binary), *map(str, args)], check=True, capture_output=True, timeout=120)
    return run


@pytest.fixture
def saved(probe, tmp_path):
    """saved(world, seed) -> (checkpoint folder, model tensors, optim tensors)"""
    def save(world, seed=0, step=100):
        model, optim = state_of(seed)
        save_file({**model, **optim}, tmp_path / "in.safetensors")
        folder = tmp_path / f"w{world}"
        folder.mkdir(exist_ok=True)
        probe("write", tmp_path / "in.safetensors", folder, "tiny", step, world)
        return folder / f"tiny-{step}steps", model, optim
    return save


@pytest.mark.parametrize("writers,readers", list(itertools.product(WORLDS, WORLDS)))
def test_reshard_bit_equal(probe, saved, tmp_path, writers, readers):
    folder, model, optim = saved(writers, seed=writers * 10 + readers)
    probe("read", folder, tmp_path / "out.safetensors", readers)
    assert equal(load_file(tmp_path / "out.safetensors"), {**model, **optim})


@pytest.mark.parametrize("world", [*WORLDS, 7])
@pytest.mark.parametrize("part", ["model", "optim"])
def test_dcp_reader_reads_and_reshards(saved, world, part):
    folder, model, optim = saved(world)
    expected = model if part == "model" else optim
    state = {name: torch.full_like(tensor, -1) for name, tensor in expected.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(str(folder / part)), no_dist=True)
    assert equal(state, expected)


@pytest.mark.parametrize("world", [1, 3])
def test_consolidate_merges(saved, tmp_path, world):
    folder, model, _ = saved(world)
    merged = tmp_path / "merged"
    merged.mkdir()
    consolidate_safetensors_files(str(folder / "model"), str(merged), dict.fromkeys(model, 1))
    assert equal(load_file(merged / "model-00001-of-00001.safetensors"), model)
    index = json.loads((merged / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(model)


def test_every_shard_is_a_safetensors_file_with_its_places(saved):
    folder, model, _ = saved(3)
    seen = dict.fromkeys(model, 0)
    files = sorted((folder / "model").iterdir())
    assert {path.name[18:23] for path in files} == {"00001", "00002", "00003"}, files
    for path in files:
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            places = json.loads(metadata["DCP_SHARDING_INFO"])
            assert metadata["format"] == "pt" and metadata["DCP_VERSION"] == "1.0"
            assert set(places) == set(file.keys())
            for name in file.keys():
                piece, offsets = file.get_tensor(name), places[name]["saved_offsets"]
                where = tuple(slice(o, o + n) for o, n in zip(offsets, piece.shape))
                assert torch.equal(model[name][where], piece)
                seen[name] += piece.numel()
    assert seen == {name: tensor.numel() for name, tensor in model.items()}


def test_manifest_hashes_with_python(saved):
    import hashlib
    import re
    folder, _, _ = saved(2)
    text = (folder / "manifest.json").read_bytes()
    manifest = json.loads(text)
    zeroed = re.sub(rb'"self_sha256":"[0-9a-f]{64}"', b'"self_sha256":"' + b"0" * 64 + b'"', text)
    assert hashlib.sha256(zeroed).hexdigest() == manifest["self_sha256"]
    listed = {file["path"] for file in manifest["files"]}
    assert listed == {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {"manifest.json"}
    for file in manifest["files"]:
        data = (folder / file["path"]).read_bytes()
        assert len(data) == file["bytes"] and hashlib.sha256(data).hexdigest() == file["sha256"]


def test_commands(wmtp, saved):
    folder, model, optim = saved(2, step=100)
    saved(2, seed=1, step=200)
    home = folder.parent
    listed = [line for line in wmtp.json_lines("checkpoint", "list", home) if line["type"] == "checkpoint"]
    assert [(c["name"], c["step"], c["headers_ok"]) for c in listed] == [("tiny-200steps", 200, True), ("tiny-100steps", 100, True)]
    facts = wmtp.json("checkpoint", "inspect", folder)
    assert (facts["step"], facts["world_size"], facts["tokens_seen"]) == (100, 2, 102400)
    tensors = {t["name"]: t for t in wmtp.json_lines("checkpoint", "inspect", folder, "--tensors") if t["type"] == "tensor"}
    assert {n: t["shape"] for n, t in tensors.items()} == {n: list(t.shape) for n, t in {**model, **optim}.items()}
    assert wmtp.json("checkpoint", "verify", folder)["bad"] == 0
    assert wmtp.json("checkpoint", "verify", home, "--all")["checked"] == 2

    shard = folder / "model" / "shard-00001-model-00001-of-00003.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    done = wmtp.run("--json", "checkpoint", "verify", home, "--all", check=False)
    assert done.returncode == 74
    damage = [json.loads(line) for line in done.stdout.splitlines()][0]
    assert damage["checkpoint"] == "tiny-100steps" and damage["begin"] < len(data) == damage["end"]
    assert damage["file"] == "model/" + shard.name and "crc32c" in damage["fact"]


def test_prune(wmtp, saved):
    for step in [1, 2, 3, 4]:
        home = saved(1, seed=step, step=step)[0].parent
    (home / "tiny-best").write_text("tiny-1steps\n")
    dry = wmtp.json_lines("checkpoint", "prune", home, "--keep", "2", "--dry-run")
    assert [line["name"] for line in dry if line["type"] == "removed"] == ["tiny-2steps"]
    assert (home / "tiny-2steps").exists()
    wmtp.run("checkpoint", "prune", home, "--keep", "2")
    assert sorted(p.name for p in home.iterdir() if p.is_dir()) == ["tiny-1steps", "tiny-3steps", "tiny-4steps"]
    assert wmtp.json("checkpoint", "verify", home, "--all")["bad"] == 0


# ---- whatever a user may name

@pytest.fixture
def run(saved, tmp_path):
    """A run's folder: two checkpoints, both pointers at the older one."""
    home = [saved(1, seed=step, step=step)[0].parent for step in (100, 200)][0]
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").write_text("")
    home.rename(tmp_path / "run/checkpoints")
    for mark in ("latest", "best"):
        (tmp_path / f"run/checkpoints/tiny-{mark}").write_text("tiny-100steps\n")
    return tmp_path / "run"


def test_every_command_takes_runs_and_pointers(wmtp, run, tmp_path):
    home = run / "checkpoints"
    for place in (run, f"{run}/", home, home / "tiny-latest", home / "tiny-200steps"):
        result = wmtp.json("checkpoint", "list", place)
        assert (result["folder"], result["checkpoints"]) == (str(home), 2)
    (tmp_path / "link").symlink_to(home)
    assert wmtp.json("checkpoint", "list", tmp_path / "link")["checkpoints"] == 2
    for place, step in ((run, 200), (home, 200), (home / "tiny-latest", 100), (home / "tiny-100steps", 100)):
        assert wmtp.json("checkpoint", "inspect", place)["step"] == step
    for place in (run, home):
        assert wmtp.json("checkpoint", "verify", place, "--all")["checked"] == 2
    assert "tiny-100steps: ok" in wmtp.run("checkpoint", "verify", home / "tiny-latest").stdout
    saved_steps = ["tiny-100steps", "tiny-200steps"]
    assert wmtp.run("checkpoint", "prune", run).stdout == f"nothing to remove in {home}\n"
    assert "no folder of checkpoints" in wmtp.error("checkpoint", "prune", home / "tiny-latest", code=78)["message"]
    assert sorted(p.name for p in home.iterdir() if p.is_dir()) == saved_steps


def test_verify_says_what_is_no_checkpoint(wmtp, run, tmp_path):
    home = run / "checkpoints"
    for place, what in ((run, "a run's folder"), (home, "a folder of checkpoints")):
        error = wmtp.error("checkpoint", "verify", place, code=78)
        assert what in error["message"] and "--all" in error["hint"]
    for name, content, what in (("adapter_config.json", "{}", "a PEFT adapter"), ("config.json", "{}", "a model folder"),
                                ("wmtp_export.json", '{"format": "hf", "source": "a", "step": 3}', "an export (hf)")):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(content)
        if name == "config.json":
            (tmp_path / "other/adapter_config.json").unlink()
        assert what in wmtp.error("checkpoint", "verify", tmp_path / "other", code=78)["message"]
    assert "not there" in wmtp.error("checkpoint", "verify", tmp_path / "nope", code=78)["message"]
    (home / "tiny-100steps/manifest.json").unlink()
    lost = wmtp.run("checkpoint", "verify", home / "tiny-100steps", check=False)
    assert lost.returncode == 74 and "manifest.json" in lost.stdout


def test_list_is_a_table(wmtp, run):
    head, *rows = wmtp.run("checkpoint", "list", run).stdout.splitlines()
    assert head.split() == ["NAME", "STEP", "CREATED", "SIZE", "MARKS", "STATE"]
    assert [row.split()[0] for row in rows] == ["tiny-200steps", "tiny-100steps"]
    assert "latest,best" in rows[1] and all("KiB" in row for row in rows)
    assert {row.index("headers ok") for row in rows} == {head.index("STATE")}


def test_what_was_set_aside_is_listed_and_goes_on_request(wmtp, run):
    home = run / "checkpoints"
    (home / "tiny-100steps").rename(home / "tiny-100steps.bad-1")
    for mark in ("latest", "best"):
        (home / f"tiny-{mark}").unlink()
    leftover = home / ".tiny-300steps.tmp-abc"
    leftover.mkdir()
    (leftover / "piece").write_text("x" * 10)
    size = sum(path.stat().st_size for path in (home / "tiny-100steps.bad-1").rglob("*") if path.is_file())
    lines = wmtp.json_lines("checkpoint", "list", run)
    assert [(line["name"], line["bytes"]) for line in lines if line["type"] == "set_aside"] == [("tiny-100steps.bad-1", size)]
    assert "set aside" in wmtp.run("checkpoint", "list", run).stdout

    def removed(*flags):
        return [(line["name"], line["kind"]) for line in wmtp.json_lines("checkpoint", "prune", run, *flags)
                if line["type"] == "removed"]
    left, bad = (leftover.name, "leftover"), ("tiny-100steps.bad-1", "set_aside")
    assert removed("--dry-run") == [left] and removed("--dry-run", "--bad") == [left, bad]
    assert leftover.exists() and (home / bad[0]).exists()
    assert removed() == [left] and not leftover.exists() and (home / bad[0]).exists()
    assert removed("--bad") == [bad] and not (home / bad[0]).exists()
    (home / "tiny-200steps").rename(home / ".tiny-200steps.old-abc")
    assert "would bring back tiny-200steps" in wmtp.run("checkpoint", "prune", run, "--dry-run").stdout
    assert "brought back tiny-200steps" in wmtp.run("checkpoint", "prune", run).stdout
    (home / "tiny-200steps").rename(home / "tiny-200steps.bad-1")  # nothing else is left
    assert removed("--bad") == [("tiny-200steps.bad-1", "set_aside")]


def test_prune_where_it_is_needed(wmtp, saved):
    """On a full disk the lock is held without a name."""
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("built without failpoints")
    for step in (1, 2, 3):
        home = saved(1, seed=step, step=step)[0].parent
    wmtp.error("checkpoint", "prune", home, "--keep", "2", env={"WMTP_FAILPOINT": "lock.write=eio"}, code=74)
    done = wmtp.run("checkpoint", "prune", home, "--keep", "2", env={"WMTP_FAILPOINT": "lock.write=enospc"})
    assert done.stdout == "removed tiny-1steps\n" and not (home / "tiny-1steps").exists()


def test_hints(wmtp, run, tmp_path):
    assert "run's folder" in wmtp.error("checkpoint", "list", tmp_path / "nope", code=78)["hint"]
    assert "org/name" in wmtp.error("checkpoint", "inspect", "nope", code=78)["hint"]
    error = wmtp.error("checkpoint", "inspect", run / "checkpoints/tiny-latest", "--raw", code=78)
    assert "--raw" in error["hint"]
    (run / "checkpoints/tiny-100steps/trainer_state.json").write_text("{}")
    error = wmtp.error("checkpoint", "inspect", run / "checkpoints/tiny-100steps", code=74)
    assert "is damaged" in error["message"] and "--resume auto" in error["hint"]
    assert "wmtp launch" not in wmtp.run("checkpoint", "--help").stdout
    assert "default 3" in wmtp.run("checkpoint", "prune", "--help").stdout


def test_errors(wmtp, saved, tmp_path):
    folder = saved(1)[0]
    assert "no folder" in wmtp.error("checkpoint", "list", tmp_path / "nowhere", code=78)["message"]
    assert "no checkpoints" in wmtp.error("checkpoint", "verify", tmp_path, "--all", code=78)["message"]
    (folder / "manifest.json").write_text('{"somebody": "else"}')
    assert "not one of wmtp" in wmtp.error("checkpoint", "verify", folder, code=78)["message"]
