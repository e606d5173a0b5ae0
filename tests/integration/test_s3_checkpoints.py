"""Checkpoints and models in a bucket, a real server's (Ceph), as the program takes them: pushed, pulled, listed, verified,
exported, resumed from, and read in ranges."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_readers import exported, score
from s3_gateway import keys_below, set_variables
from tiny_runs import TinyRuns, error_of, events, state_hash

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

torch = pytest.importorskip("torch")

BUCKET = "wmtp-reads"


@pytest.fixture(scope="module")
def gateway(ceph):
    """The program finds its server and its keys by the environment."""
    ceph.make_bucket(BUCKET)
    with pytest.MonkeyPatch.context() as patch:
        set_variables(patch, ceph.variables)
        yield ceph.variables


@pytest.fixture(scope="module")
def boto(gateway, ceph):
    return ceph.boto


@pytest.fixture(scope="module")
def runs(wmtp, gateway, tmp_path_factory):
    """6 steps of two ranks, with checkpoints of steps 3 and 6."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("runs"), steps=6, every=3, lora=False)
    runs.run("run", ranks=2)
    return runs


@pytest.fixture(scope="module")
def pushed(wmtp, runs):
    """Both checkpoints, pushed by hand: s3://bucket/pushed."""
    place = f"s3://{BUCKET}/pushed"
    for step in (3, 6):
        wmtp.json("checkpoint", "push", runs.checkpoint("run", step), place)
    return place


def put_back(boto, prefix, name, body):
    boto.put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=body)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_push_sends_what_is_missing_and_points_to_the_newest(wmtp, runs, boto):
    place, one = f"s3://{BUCKET}/push", runs.checkpoint("run", 6)
    local = files_of(one)
    first = wmtp.json("checkpoint", "push", one, place)
    assert (first["name"], first["copied"], first["kept"]) == ("tiny-6steps", len(local), 0)
    assert first["place"] == f"{place}/tiny-6steps" and first["copied_bytes"] == sum(map(len, local.values()))
    stored = {name: boto.get_object(Bucket=BUCKET, Key=f"push/{name}")["Body"].read() for name in keys_below(boto, BUCKET, "push")}
    assert stored.pop("tiny-latest") == b"tiny-6steps\n" and stored.pop("tiny-final", b"tiny-6steps\n") == b"tiny-6steps\n"
    stored.pop("tiny-best", None)
    assert stored == {f"tiny-6steps/{name}": body for name, body in local.items()}
    again = wmtp.json_lines("checkpoint", "push", runs.folder / "run", place)  # of a run's folder the newest
    assert (again[-1]["copied"], again[-1]["kept"], again[-1]["pointers"]) == (0, len(local), [])
    assert [line["done"] for line in again[:-1]] == list(range(1, len(local) + 1)) and not any(line["copied"] for line in again[:-1])
    boto.delete_object(Bucket=BUCKET, Key="push/tiny-6steps/trainer_state.json")
    put_back(boto, "push", "tiny-6steps/config.json", b"x" * len(local["config.json"]))
    assert wmtp.json("checkpoint", "push", one, place)["copied"] == 2
    older = wmtp.json("checkpoint", "push", runs.checkpoint("run", 3), place)
    assert older["copied"] > 0 and "tiny-latest" not in older["pointers"]


def test_nothing_is_published_without_its_data(wmtp, runs, boto, gateway, tmp_path):
    rules = [{"method": "PUT", "path": "optim", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}]
    with FaultyServer(rules=rules, default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        error = wmtp.error("checkpoint", "push", runs.checkpoint("run", 6), f"s3://{BUCKET}/cut", code=78,
                           env={"AWS_ENDPOINT_URL_S3": server.url})
    assert "AccessDenied" in error["message"]
    there = keys_below(boto, BUCKET, "cut")
    assert there and not [name for name in there if name.endswith("manifest.json") or name.endswith("-latest")]
    damaged = tmp_path / "tiny-6steps"
    shutil.copytree(runs.checkpoint("run", 6), damaged)
    shard = next((damaged / "model").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert "crc32c" in wmtp.error("checkpoint", "push", damaged, f"s3://{BUCKET}/cut", code=74)["message"]
    assert not [name for name in keys_below(boto, BUCKET, "cut") if name.endswith("manifest.json")]


def test_another_checkpoint_of_the_name_stays(wmtp, runs, pushed, boto):
    boto.copy_object(Bucket=BUCKET, Key="other/tiny-6steps/manifest.json", CopySource=f"{BUCKET}/pushed/tiny-3steps/manifest.json")
    error = wmtp.error("checkpoint", "push", runs.checkpoint("run", 6), f"s3://{BUCKET}/other", code=78)
    assert "another checkpoint of this name" in error["message"] and keys_below(boto, BUCKET, "other") == ["tiny-6steps/manifest.json"]


def test_pull_brings_the_same_bytes(wmtp, runs, pushed, tmp_path):
    for number, source in enumerate([f"{pushed}/tiny-6steps", f"{pushed}/tiny-latest", pushed, pushed + "/"]):
        got = wmtp.json("checkpoint", "pull", source, tmp_path / str(number))
        assert got["name"] == "tiny-6steps" and got["kept"] == 0
        assert files_of(tmp_path / str(number)) == {f"tiny-6steps/{name}": body for name, body in files_of(runs.checkpoint("run", 6)).items()}
    assert wmtp.json("checkpoint", "pull", pushed, tmp_path / "0")["copied"] == 0, "it is there"
    shutil.copytree(runs.checkpoint("run", 3), tmp_path / "taken/tiny-6steps")
    assert wmtp.run("checkpoint", "pull", pushed, tmp_path / "taken", check=False).returncode == 74
    assert "no checkpoint" in wmtp.error("checkpoint", "pull", f"{pushed}/nothing", tmp_path, code=78)["message"]


def test_a_pull_that_was_cut_short_goes_on(wmtp, runs, pushed, gateway, tmp_path):
    rules = [{"method": "GET", "path": "trainer_state", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}]
    with FaultyServer(rules=rules, default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        done = wmtp.run("checkpoint", "pull", pushed, tmp_path, check=False, env={"AWS_ENDPOINT_URL_S3": server.url})
        assert done.returncode != 0
    draft, = tmp_path.iterdir()
    assert draft.name.startswith(".tiny-6steps.tmp-pull-") and not (draft / "manifest.json").exists()
    shard = next((draft / "optim").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")  # what does not verify is fetched again
    (draft / "model/.shard.AbCdEf").write_bytes(b"of a download that was killed")
    got = wmtp.json("checkpoint", "pull", pushed, tmp_path)
    assert got["copied"] == 2 and got["kept"] > 0
    assert files_of(tmp_path / "tiny-6steps") == files_of(runs.checkpoint("run", 6)) and [path.name for path in tmp_path.iterdir()] == ["tiny-6steps"]


def test_pulled_bytes_are_held_against_the_manifest(wmtp, pushed, boto, tmp_path):
    names = keys_below(boto, BUCKET, "pushed/tiny-6steps")
    for name in names:
        boto.copy_object(Bucket=BUCKET, Key=f"damaged/tiny-6steps/{name}", CopySource=f"{BUCKET}/pushed/tiny-6steps/{name}")
    shard = next(name for name in names if name.startswith("optim/"))
    body = boto.get_object(Bucket=BUCKET, Key=f"damaged/tiny-6steps/{shard}")["Body"].read()
    put_back(boto, "damaged", f"tiny-6steps/{shard}", body[:-1] + b"?")
    error = wmtp.error("checkpoint", "pull", f"s3://{BUCKET}/damaged", tmp_path, code=74)
    assert shard in error["message"] and "sha256" in error["message"] and not (tmp_path / "tiny-6steps").exists()
    lines = wmtp.run("--json", "checkpoint", "verify", f"s3://{BUCKET}/damaged/tiny-6steps", check=False)
    damage = [json.loads(line) for line in lines.stdout.splitlines()][0]
    assert lines.returncode == 74 and damage["file"] == shard and damage["end"] == len(body)


def test_commands_read_a_bucket_as_they_read_a_disk(wmtp, runs, pushed, tmp_path):
    for words in (("list",), ("verify", "--all")):
        there = wmtp.json_lines("checkpoint", words[0], pushed, *words[1:])
        here = wmtp.json_lines("checkpoint", words[0], runs.save_dir("run"), *words[1:])
        for line in (*there, *here):
            line.pop("folder", None)
            line.pop("marks", None)
        assert there == here
    inspected = wmtp.json("checkpoint", "inspect", f"{pushed}/tiny-latest")
    assert inspected["folder"] == f"{pushed}/tiny-6steps" and inspected["step"] == 6
    far = exported(wmtp, f"{pushed}/tiny-3steps", tmp_path / "far")
    near = exported(wmtp, runs.checkpoint("run", 3), tmp_path / "near")
    assert far.keys() == near.keys() and all(torch.equal(far[name], near[name]) for name in near)
    assert "removes nothing from S3" in wmtp.error("checkpoint", "prune", pushed, code=78)["message"]


def test_a_run_goes_on_from_a_bucket(wmtp, runs, pushed):
    runs.run("local", "--resume", str(runs.checkpoint("run", 3)), ranks=2)
    done = runs.run("remote", "--resume", f"{pushed}/tiny-3steps", ranks=2)
    assert events(done.stdout, "resumed")[0]["step"] == 3
    assert state_hash(runs.checkpoint("remote", 6)) == state_hash(runs.checkpoint("local", 6))
    refused = runs.run("never", "--resume", f"s3://{BUCKET}/nothing", code=78)
    assert "holds no checkpoint" in error_of(refused)
    refused = runs.run("never", code=78, checkpoint__save_dir=f"s3://{BUCKET}/saves")
    assert "checkpoint.s3_upload copies each one" in refused.stdout


def test_the_aws_cli_reads_what_was_pushed_and_writes_what_is_read(wmtp, runs, pushed, gateway, tmp_path):
    aws = shutil.which("aws", path=os.defpath)  # Debian's, not one of a Python environment
    assert aws, "no AWS CLI: tools/setup --python installs it"
    assert subprocess.run([aws, "--version"], capture_output=True, text=True).stdout.startswith("aws-cli/2")

    def copy(source, target):
        subprocess.run([aws, "--endpoint-url", gateway["AWS_ENDPOINT_URL_S3"], "s3", "cp", "--quiet", "--recursive", source, target],
                       check=True, timeout=120)
    local = files_of(runs.checkpoint("run", 6))
    copy(f"{pushed}/tiny-6steps", tmp_path / "tiny-6steps")
    assert files_of(tmp_path / "tiny-6steps") == local
    copy(tmp_path / "tiny-6steps", f"s3://{BUCKET}/cli/tiny-6steps")
    wmtp.run("checkpoint", "verify", f"s3://{BUCKET}/cli", "--all")
    wmtp.run("checkpoint", "pull", f"s3://{BUCKET}/cli", tmp_path / "back")
    assert files_of(tmp_path / "back/tiny-6steps") == local


def test_a_model_folder_is_read_in_ranges(wmtp, runs, boto, gateway, tmp_path):
    folder = tmp_path / "hf"
    tensors = exported(wmtp, runs.checkpoint("run", 6), folder, "--keep-mtp")
    for path in folder.rglob("*"):
        if path.is_file():
            boto.upload_file(str(path), BUCKET, f"model/{path.relative_to(folder)}")
    place = f"s3://{BUCKET}/model"
    assert score(wmtp, place, runs) == score(wmtp, folder, runs)
    far = exported(wmtp, place, tmp_path / "again", "--keep-mtp")
    assert far.keys() == tensors.keys() and all(torch.equal(far[name], tensors[name]) for name in tensors)
    with FaultyServer(default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway["AWS_ENDPOINT_URL_S3"]}}) as server:
        shown = wmtp.json("checkpoint", "inspect", place, env={"AWS_ENDPOINT_URL_S3": server.url})
        ranges = [one.header("Range") for one in server.requests if one.method == "GET" and "safetensors" in one.target]
    assert ranges and all(ranges), "never the whole file"
    assert shown["tensors"] == len(tensors)
    boto.put_object(Bucket=BUCKET, Key="torch/pytorch_model.bin", Body=b"x")
    boto.upload_file(str(folder / "config.json"), BUCKET, "torch/config.json")
    assert "cannot be read in ranges" in wmtp.error("checkpoint", "inspect", f"s3://{BUCKET}/torch", code=78)["message"]


def test_refusals_name_the_place(wmtp, gateway, pushed):
    wrong = {"AWS_SECRET_ACCESS_KEY": "wrong"}
    error = wmtp.error("checkpoint", "list", pushed, code=78, env=wrong)
    assert "SignatureDoesNotMatch" in error["message"]
    assert "NoSuchBucket" in wmtp.error("checkpoint", "list", f"s3://{BUCKET}-absent/x", code=78)["message"]
    assert "no name of a bucket" in wmtp.error("checkpoint", "list", "s3://Bad_name/x", code=78)["message"]
