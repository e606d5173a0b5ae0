"""Checkpoints on their way to S3: a Ceph gateway as the server, kills, outages and failing requests on the way, and real runs
of a tiny model. WMTP_SOAK makes more of it: 25 is 5 GB and 20 kills."""
import base64
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from s3_gateway import set_variables
from s3_watch import BUCKET, Uploaded, Watcher
from tiny_runs import TinyRuns, error_of, events, metrics, result_of, state_hash, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support/servers"))

from faulty_http import FaultyServer

MIB = 1 << 20
SOAK = int(os.environ.get("WMTP_SOAK", "1"))
FOLDERS, FOLDER_BYTES = 4, 50_000_000 * min(SOAK, 25)
KILLS = min(3 * SOAK, 20)


@pytest.fixture(scope="module")
def gateway(ceph):
    return Uploaded(ceph)


@pytest.fixture(autouse=True)
def variables(gateway, monkeypatch):
    set_variables(monkeypatch, gateway.variables)


@pytest.fixture
def prefix(request):
    return re.sub(r"\W+", "-", request.node.name)[-60:].strip("-")


def faulty(gateway, rules=(), **options):
    return FaultyServer(rules=list(rules), default={"handler": "proxy"}, handlers={"proxy": {"upstream": gateway.url}}, **options)


class Storm:
    """Folders like checkpoints, and the stand-in for a run that uploads them."""

    def __init__(self, wmtp, gateway, prefix, root, **options):
        self.binary = wmtp.binary.parent / "wmtp_upload_storm"
        assert self.binary.exists(), f"no {self.binary}: run make build, or ninja -C build wmtp_upload_storm"
        self.gateway, self.prefix, self.root = gateway, prefix, root
        self.job = {"root": str(root), "bucket": BUCKET, "prefix": prefix, "part_bytes": 5 * MIB, **options}
        self.wanted = {}

    def make(self, step, sizes, seed=0):
        folder = self.root / f"m-{step}steps"
        for path, size in {**sizes, "manifest.json": 300}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            drawn = random.Random(f"{seed} {step} {path}")
            with open(folder / path, "wb") as file:
                for begin in range(0, size, 8 * MIB):
                    file.write(drawn.randbytes(min(8 * MIB, size - begin)))
        self.wanted[folder.name] = {**sizes, "manifest.json": 300}

    def start(self, url=None, failpoint=None, hits=None, env=None, **more):
        env = {**(env or os.environ), "AWS_ENDPOINT_URL_S3": url or self.gateway.url}
        if failpoint:
            env.update(WMTP_FAILPOINT=failpoint, WMTP_FAILPOINT_LOG=str(hits))
        return subprocess.Popen([self.binary, json.dumps({**self.job, **more})], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env=env)

    def finish(self, code=0, **more):
        process = self.start(**more)
        text = process.communicate(timeout=600)[0]
        assert process.returncode == code, text
        return json.loads(text.splitlines()[-1])

    def check(self):
        """All is there as it is here, and nothing else is."""
        found = self.gateway.objects(self.prefix)
        last = max(self.wanted, key=lambda name: int(name[2:-5]))
        assert found == {"m-latest": len(last) + 1,
                         **{f"{name}/{path}": size for name, files in self.wanted.items() for path, size in files.items()}}
        assert self.gateway.body(self.prefix, "m-latest") == f"{last}\n".encode()
        for name, files in self.wanted.items():
            for path in files:
                assert self.gateway.body(self.prefix, f"{name}/{path}") == (self.root / name / path).read_bytes(), (name, path)

    def queued(self):
        return sorted(path.name for path in (self.root / ".uploads/m").glob("*"))


def test_kills_outages_and_failing_requests_damage_nothing(wmtp, gateway, prefix, tmp_path):
    faults = [{"status": 503}, {"handler": "proxy", "status": 500}, {"handler": "proxy", "cut": {"at": "request_body:1000", "how": "reset"}},
              {"handler": "proxy", "cut": {"at": "answer", "how": "reset"}}]
    rules = [{"name": str(at), "rate": 0.2 / (len(faults) - at * 0.2), "action": action} for at, action in enumerate(faults)]
    storm = Storm(wmtp, gateway, prefix, tmp_path, wait_s=600, retries=3)
    for step in range(1, FOLDERS + 1):
        storm.make(step, {"model/shard": FOLDER_BYTES * 2 // 5, "optim/shard": FOLDER_BYTES * 3 // 5, "state.json": 1000}, seed=step)
    drawn = random.Random(5)
    with faulty(gateway, rules, seed=7) as server, Watcher(gateway, prefix, storm.wanted) as watcher:
        for kill in range(KILLS):
            process = storm.start(url=server.url)
            goal = len(server.requests) + drawn.randint(3, max(4, 40 * SOAK // KILLS))
            wait_for(lambda: len(server.requests) >= goal or process.poll() is not None)
            if kill == 1:
                gateway.turn("down")
                time.sleep(1)  # of tries that find nobody
                gateway.turn("up")
            process.kill()
            process.communicate()
        done = storm.finish(url=server.url)
        requests, share = len(server.requests), sum(server.acted.values()) / len(server.requests)
    watcher.look()
    print(f"\nG19: {FOLDERS * FOLDER_BYTES / 1e9:.1f} GB, {KILLS} kills, {requests} requests, {share:.0%} of them failed: "
          f"{len(watcher.complaints)} manifests early")
    assert not watcher.complaints and watcher.looks > 3
    assert 0.1 < share < 0.4 and done["pending"] == 0 and not storm.queued()
    storm.check()


def test_what_the_watcher_would_not_overlook(gateway, prefix):
    watcher = Watcher(gateway, prefix, {"m-1steps": {"a": 1, "b": 2}})
    gateway.boto.put_object(Bucket=BUCKET, Key=f"{prefix}/m-1steps/a", Body=b"1")
    watcher.look()
    assert not watcher.complaints
    gateway.boto.put_object(Bucket=BUCKET, Key=f"{prefix}/m-1steps/manifest.json", Body=b"{}")
    watcher.look()
    assert watcher.complaints == ["m-1steps: a manifest without b"]


@pytest.mark.parametrize("point", ["upload.part.sent:nth=2=kill", "upload.complete.sent:nth=1=kill", "upload.head.done:nth=1=kill",
                                   "upload.head.done:nth=2=kill", "upload.manifest.put:nth=1=kill", "upload.queue.half:nth=1=kill",
                                   "upload.queue.half:nth=2=kill", "upload.queue.half:nth=4=kill"])
def test_killed_at_any_point_an_upload_goes_on(wmtp, gateway, prefix, tmp_path, point):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    root = tmp_path / "root"
    storm = Storm(wmtp, gateway, prefix, root, concurrency=1)
    storm.make(1, {"a": 11 * MIB, "b": 1000})
    hits, watcher = tmp_path / "hits", Watcher(gateway, prefix, storm.wanted)
    for again in (False, True):  # and once more while it recovers
        process = storm.start(failpoint=point, hits=hits)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL or again
        assert point.split(":")[0] in hits.read_text()
        assert again or "m-1steps/manifest.json" not in gateway.objects(prefix)
        watcher.look()
    assert not watcher.complaints
    done = storm.finish()
    assert done["folders_up"] == 1 and not storm.queued()
    storm.check()
    if point.startswith(("upload.part", "upload.complete", "upload.manifest")):
        assert gateway.uploads(prefix) == [], "what was begun is used or ended"


def test_a_part_that_was_sent_is_not_sent_again(wmtp, gateway, prefix, tmp_path):
    storm = Storm(wmtp, gateway, prefix, tmp_path, concurrency=1, retries=0)
    storm.make(1, {"a": 21 * MIB})
    with faulty(gateway, [{"method": "PUT", "query": "partNumber=4", "action": {"status": 500}}]) as server:
        assert storm.finish(url=server.url, code=75, wait_s=2)["failed_tries"] > 0
    with faulty(gateway) as server:
        storm.finish(url=server.url)
        sent = [one.query for one in server.requests if one.method == "PUT" and "partNumber" in one.query]
    assert len(sent) == 2, sent
    storm.check()


def test_a_folder_that_is_gone_is_given_up_and_the_next_goes_up(wmtp, gateway, prefix, tmp_path):
    storm = Storm(wmtp, gateway, prefix, tmp_path, concurrency=1, retries=0)
    storm.make(1, {"a": 11 * MIB})
    with faulty(gateway, [{"method": "PUT", "query": "partNumber=2", "action": {"status": 500}}]) as server:
        storm.finish(url=server.url, code=75, wait_s=1)
    assert storm.queued() == ["m-1steps.queue"] and gateway.uploads(prefix)
    for path in (tmp_path / "m-1steps").iterdir():
        path.unlink()
    (tmp_path / "m-1steps").rmdir()
    storm.wanted.clear()
    storm.make(2, {"a": 1000})
    storm.finish()
    assert gateway.uploads(prefix) == [] and not storm.queued()
    storm.check()


def test_another_folder_of_the_same_name_takes_its_place(wmtp, gateway, prefix, tmp_path):
    storm = Storm(wmtp, gateway, prefix, tmp_path)
    storm.make(1, {"a": 1000, "old": 10})
    storm.finish()
    (tmp_path / "m-1steps/old").unlink()
    storm.wanted.clear()
    storm.make(1, {"a": 2000, "new": 10}, seed=1)
    storm.finish()
    storm.check()


def test_a_secret_that_is_put_right_lets_uploads_go_on(wmtp, gateway, prefix, tmp_path):
    storm = Storm(wmtp, gateway, prefix, tmp_path / "root")
    storm.make(1, {"a": 1000})
    profile = tmp_path / ".aws/credentials"
    profile.parent.mkdir()

    def write_profile(secret):
        profile.write_text(f"[default]\naws_access_key_id={gateway.variables['AWS_ACCESS_KEY_ID']}\naws_secret_access_key={secret}\n")
    write_profile("canary-secret")
    keyless = {name: value for name, value in os.environ.items() if "KEY" not in name}
    with faulty(gateway) as server:
        process = storm.start(url=server.url, env={**keyless, "HOME": str(tmp_path)})
        wait_for(lambda: len(server.requests) > 2 or process.poll() is not None)
        write_profile(gateway.variables["AWS_SECRET_ACCESS_KEY"])
        text = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and json.loads(text.splitlines()[-1])["failed_tries"] > 0, text
    assert "AWS_SECRET_ACCESS_KEY" in text and "canary-secret" not in text, "told what is wrong, and not the secret"
    storm.check()


def test_old_multipart_uploads_that_no_queue_knows_are_aborted(wmtp, gateway, prefix, tmp_path):
    begun = {"old": "2020-01-01T00:00:00.000Z", "new": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}
    entries = "".join(f"<Upload><Key>{prefix}/m-0steps/a</Key><UploadId>{name}</UploadId><Initiated>{when}</Initiated></Upload>"
                      for name, when in begun.items())
    body = f"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{entries}</ListMultipartUploadsResult>"
    storm = Storm(wmtp, gateway, prefix, tmp_path)
    storm.make(1, {"a": 1000})
    with faulty(gateway, [{"method": "GET", "query": "(^|&)uploads=", "action": {"body": body}},
                          {"name": "abort", "method": "DELETE", "query": "uploadId=", "action": {"status": 204}}]) as server:
        storm.finish(url=server.url)
        aborted = [(one.path, one.query) for one in server.requests if one.method == "DELETE" and "uploadId" in one.query]
    assert aborted == [(f"/{BUCKET}/{prefix}/m-0steps/a", "uploadId=old")]
    storm.check()


def test_memory_does_not_grow_with_the_folder(wmtp, gateway, prefix, tmp_path):
    storm = Storm(wmtp, gateway, prefix, tmp_path, part_bytes=16 * MIB, concurrency=4)
    storm.make(1, {"a": 64 * MIB})
    process, most = storm.start(), 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        most = max(most, int(found[1]) if found else 0)
        time.sleep(0.01)
    assert process.returncode == 0 and 0 < most < 48 * 1024, f"{most} KiB with four parts of 16 MiB on the way"


@pytest.fixture
def runs(wmtp, tmp_path):
    return TinyRuns(wmtp, tmp_path, steps=6, every=2)


def uploading(prefix, **more):
    return {"checkpoint__s3_upload": True, "checkpoint__async": False, "storage__s3__bucket": BUCKET, "storage__s3__prefix": prefix, **more}


def local_files(runs, name):
    root = runs.save_dir(name)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.glob("tiny-*steps/**/*") if path.is_file()}


def queued(runs, name):
    return sorted(path.name for path in (runs.save_dir(name) / ".uploads/tiny").glob("*"))


def check_copy(runs, name, gateway, prefix):
    """The bucket holds the checkpoints that are here, and the pointers."""
    files = local_files(runs, name)
    pointers = {path.name: path.read_bytes() for path in runs.save_dir(name).glob("tiny-*") if re.fullmatch("tiny-(latest|best|final)", path.name)}
    assert set(gateway.objects(prefix)) == {*files, *pointers}
    for path, body in {**files, **pointers}.items():
        assert gateway.body(prefix, path) == body, path


def test_a_run_uploads_its_checkpoints_and_tells_of_it(runs, gateway, prefix):
    done = runs.run("run", **uploading(prefix))
    assert runs.steps("run") == [2, 4, 6] and queued(runs, "run") == []
    check_copy(runs, "run", gateway, prefix)
    points = [point for point in metrics(runs, "run") if "s3/bytes_up" in point]
    assert [point["step"] for point in points][:3] == [2, 4, 6] and points[-1]["s3/pending"] == 0
    assert points[-1]["s3/failed_tries"] == 0 and points[-1]["s3/caller_s"] < 1
    total = sum(len(body) for body in local_files(runs, "run").values())
    assert points[-1]["s3/bytes_up"] == total
    summary = json.loads((runs.folder / "run/summary.json").read_text())
    assert summary["counts"]["uploaded bytes"] == total and summary["counts"]["uploaded checkpoints"] >= 3
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        secret = gateway.variables[name].encode()
        for place in (done.stdout.encode(), done.stderr.encode(),
                      *(path.read_bytes() for path in (runs.folder / "run").rglob("*") if path.is_file())):
            assert secret not in place and base64.b64encode(secret).rstrip(b"=") not in place


def test_old_checkpoints_go_there_too(runs, gateway, prefix):
    runs.run("run", **uploading(prefix, storage__s3__keep=1))
    assert runs.steps("run") == [2, 4, 6]
    assert {name.partition("/")[0] for name in gateway.objects(prefix) if "/" in name} == {"tiny-6steps"}


def test_a_finished_run_with_open_uploads_ends_with_75_and_the_next_start_drains(runs, gateway, prefix):
    options = uploading(prefix, checkpoint__upload_wait_s=1, checkpoint__save_every_steps=1, checkpoint__save_total_limit=2,
                        checkpoint__async=False, storage__s3__retries=0)
    with FaultyServer(default={"status": 503}) as server:
        began = time.monotonic()
        runs.run("run", "--resume", "never", code=75, storage__s3__endpoint=server.url, **options)
        assert time.monotonic() - began < 60
    assert json.loads((runs.folder / "run/last_exit.json").read_text())["code"] == 75
    assert "tiny-1steps.queue" in queued(runs, "run") and len(queued(runs, "run")) <= 4
    assert runs.steps("run")[0] == 1, "what is being sent stays, whatever retention says"
    assert gateway.objects(prefix) == {}
    before = len([point for point in metrics(runs, "run") if "train/loss" in point])
    runs.run("run", **{**options, "checkpoint__upload_wait_s": 60})
    assert len([point for point in metrics(runs, "run") if "train/loss" in point]) == before, "it only drains"
    assert queued(runs, "run") == [] and runs.steps("run") == [5, 6], "and what had to wait has gone"
    assert {"tiny-6steps/manifest.json", "tiny-latest", "tiny-final"} <= set(gateway.objects(prefix))
    assert gateway.body(prefix, "tiny-final") == b"tiny-6steps\n"


def test_a_stopped_run_leaves_its_queue_and_ends_with_80(wmtp, gateway, prefix, tmp_path):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path, steps=1000, every=2)
    with FaultyServer(default={"cut": {"at": "answer", "how": "stall"}}) as server:
        process = runs.start("run", "--resume", "never", failpoint="step.begin:nth=1+=sleep:20",
                             storage__s3__endpoint=server.url, **uploading(prefix))
        wait_for(lambda: queued(runs, "run") or process.poll() is not None)
        began = time.monotonic()
        process.terminate()
        text = process.communicate(timeout=60)[0]
    assert process.returncode == 80, text
    assert time.monotonic() - began < 20, "it did not wait for the server"
    assert queued(runs, "run")


def test_a_stop_ends_the_wait_of_a_finished_run(runs, prefix):
    with FaultyServer(default={"cut": {"at": "answer", "how": "stall"}}) as server:
        process = runs.start("run", "--resume", "never", storage__s3__endpoint=server.url, **uploading(prefix))
        wait_for(lambda: (runs.save_dir("run") / "tiny-final").exists() or process.poll() is not None)
        time.sleep(1)  # it waits, for ten minutes if need be
        assert process.poll() is None
        process.terminate()
        text = process.communicate(timeout=30)[0]
    assert process.returncode == 75, text
    assert len(queued(runs, "run")) == 3


def test_offline_leaves_the_queue_and_prune_what_is_in_it(wmtp, runs, prefix):
    with FaultyServer(default={"status": 503}) as server:
        runs.run("run", "--offline", storage__s3__endpoint=server.url, **uploading(prefix))
        assert len(server.requests) == 0
    assert len(queued(runs, "run")) == 3
    assert wmtp.run("checkpoint", "prune", runs.folder / "run", "--keep", "2").stdout.startswith("nothing to remove")
    for path in (runs.save_dir("run") / ".uploads/tiny").iterdir():
        path.unlink()
    assert "removed tiny-2steps" in wmtp.run("checkpoint", "prune", runs.folder / "run", "--keep", "2").stdout


def test_a_run_without_a_bucket_is_refused(runs):
    done = runs.run("run", code=78, checkpoint__s3_upload=True)
    assert "needs storage.s3.bucket" in done.stdout + done.stderr


def uploaded_steps(gateway, prefix):
    return [int(name[5:].split("steps")[0]) for name in gateway.objects(prefix) if name.endswith("manifest.json")]


def test_a_run_whose_disk_is_lost_goes_on_from_the_bucket(wmtp, gateway, prefix, tmp_path):
    """Kills, and before each restart what is here is deleted."""
    runs = TinyRuns(wmtp, tmp_path, steps=24, every=2)
    runs.run("calm")
    rounds = []
    for _ in range(KILLS):
        process = runs.start("run", failpoint="step.begin:nth=1+=sleep:50", **uploading(prefix))
        goal = max(rounds, default=0) + 2
        wait_for(lambda: max(uploaded_steps(gateway, prefix), default=0) >= goal or process.poll() is not None)
        process.kill()
        process.communicate()
        rounds.append(max(uploaded_steps(gateway, prefix)))
        shutil.rmtree(runs.save_dir("run"))
    done = runs.run("run", **uploading(prefix))
    assert [event["step"] for event in events(done.stdout, "resumed")] == [rounds[-1]]
    assert state_hash(runs.checkpoint("run", 24)) == state_hash(runs.checkpoint("calm", 24))


def test_a_later_checkpoint_of_the_bucket_is_fetched_by_one_rank_for_all(runs, gateway, prefix):
    options = uploading(prefix, ranks=2)
    runs.run("run", **options)
    shard = next(name for name in gateway.objects(prefix) if name.startswith("tiny-6steps/model/"))
    body = gateway.body(prefix, shard)
    gateway.boto.put_object(Bucket=BUCKET, Key=f"{prefix}/{shard}", Body=body[:-1] + b"?")
    gateway.boto.put_object(Bucket=BUCKET, Key=f"{prefix}/tiny-8steps/trainer_state.json", Body=b"of an upload that was cut short")
    wanted = state_hash(runs.checkpoint("run", 6))
    for step in (4, 6):
        shutil.rmtree(runs.checkpoint("run", step))
    done = runs.run("run", **options)
    assert "tiny-6steps" in done.stderr and "trying the one before" in done.stderr
    assert [event["step"] for event in events(done.stdout, "resumed")] == [4], "neither the damaged one nor the older one here"
    assert state_hash(runs.checkpoint("run", 6)) == wanted
    assert gateway.body(prefix, shard) == body, "and what was damaged there is replaced"


def test_a_bucket_that_does_not_answer_keeps_a_run_from_beginning_anew(runs, prefix):
    options = uploading(prefix, storage__s3__retries=0, checkpoint__upload_wait_s=1)
    with FaultyServer(default={"status": 503}) as server:
        refused = runs.run("run", code=75, storage__s3__endpoint=server.url, **options)
        assert "holds no checkpoint of tiny" in error_of(refused) and "--allow-fresh-start" in refused.stdout
        assert not runs.steps("run")
        runs.run("run", "--allow-fresh-start", code=75, storage__s3__endpoint=server.url, **options)
        assert runs.steps("run") == [2, 4, 6]
        again = runs.run("run", code=75, storage__s3__endpoint=server.url, **options)
        assert "cannot be told" in again.stderr, "what is here is enough to go on"


def test_a_dry_run_writes_and_removes_one_object(runs, gateway, prefix):
    with faulty(gateway) as server:
        done = runs.run("run", "--dry-run", storage__s3__endpoint=server.url, **uploading(prefix))
        written = [one.path for one in server.requests if one.method == "PUT"]
    assert result_of(done)["dry_run"] and BUCKET in result_of(done)["s3"]
    assert written and gateway.objects(prefix) == {} and gateway.uploads(prefix) == []
    assert not (runs.folder / "run").exists()


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_a_dry_run_ends_as_the_run_with_a_wrong_secret_or_bucket(runs, gateway, prefix, monkeypatch, resume):
    """With nothing to resume from the bucket decides at the start; else the end has checkpoints that did not go up."""
    options = uploading(prefix, checkpoint__upload_wait_s=1, storage__s3__retries=0, training__max_steps=1)
    code = 75 if resume == "never" else 78
    for name, wrong in {"bucket": {"storage__s3__bucket": "wmtp-nobody"}, "secret": {}}.items():
        if name == "secret":
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
        dry = runs.run(f"dry-{name}", "--resume", resume, "--dry-run", code=code, **{**options, **wrong})
        assert "canary-secret" not in dry.stdout + dry.stderr
        assert not (runs.folder / f"dry-{name}").exists()
        assert ("wmtp-nobody" if name == "bucket" else "AWS_SECRET_ACCESS_KEY") in dry.stdout
        if SOAK > 1:
            runs.run(name, "--resume", resume, code=code, **{**options, **wrong})


def doctor(wmtp, runs, *overrides, code=0):
    words = [word for text in overrides for word in ("--override", text)]
    done = wmtp.run("--json", "doctor", "--s3", "--storage", runs.folder, "--config", runs.config, "--defaults", "none", *words, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    checks = [json.loads(line) for line in done.stdout.splitlines()][-1]["checks"]
    return {check["name"]: check for check in checks}


def test_doctor_tries_every_permission_and_leaves_nothing(wmtp, runs, gateway, prefix):
    place = (f"storage.s3.bucket={BUCKET}", f"storage.s3.prefix={prefix}")
    found = doctor(wmtp, runs, *place)
    names = ["S3", "libcurl", "TLS", "keys", "reachable", "server clock", "bucket", "list", "put", "get", "multipart", "uploads", "delete"]
    assert [name for name in found if name in names] == names
    assert all(found[name]["status"] == "OK" for name in names), found
    assert gateway.objects(prefix) == {} and gateway.uploads(prefix) == []
    assert doctor(wmtp, runs, code=78)["S3"]["fix"]
    assert "storage.s3.bucket" in doctor(wmtp, runs, "storage.s3.bucket=wmtp-absent", code=78)["bucket"]["fix"]


@pytest.mark.parametrize(("rule", "name", "fix"), [
    ({"method": "PUT", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}, "put", "s3:PutObject"),
    ({"method": "GET", "path": "wmtp-doctor", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}, "get", "s3:GetObject"),
    ({"method": "DELETE", "query": "^$", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}, "delete", "is still there"),
    ({"method": "POST", "action": {"status": 403, "body": "<Error><Code>AccessDenied</Code></Error>"}}, "multipart", "s3:AbortMultipartUpload"),
    ({"header": {"Authorization": "."}, "action": {"status": 301, "headers": {"x-amz-bucket-region": "eu-west-3"}}}, "region", "eu-west-3"),
    ({"header": {"Authorization": "."}, "action": {"status": 403, "body": "<Error><Code>SignatureDoesNotMatch</Code></Error>"}}, "keys",
     "AWS_SECRET_ACCESS_KEY"),
], ids=lambda value: value if isinstance(value, str) else "rule")
def test_doctor_names_what_is_not_allowed_and_the_fix(wmtp, runs, gateway, prefix, rule, name, fix):
    with faulty(gateway, [rule]) as server:
        found = doctor(wmtp, runs, f"storage.s3.bucket={BUCKET}", f"storage.s3.prefix={prefix}", f"storage.s3.endpoint={server.url}", code=78)
    assert found[name]["status"] == "FAIL" and fix in found[name]["fix"], found


def test_doctor_tells_of_a_clock_that_differs(wmtp, runs, gateway, prefix):
    with FaultyServer(default={"handler": "proxy", "date_skew_s": 3600}, handlers={"proxy": {"upstream": gateway.url}}) as server:
        found = doctor(wmtp, runs, f"storage.s3.bucket={BUCKET}", f"storage.s3.prefix={prefix}", f"storage.s3.endpoint={server.url}")
    assert found["server clock"]["status"] == "WARN" and "NTP" in found["server clock"]["fix"]
