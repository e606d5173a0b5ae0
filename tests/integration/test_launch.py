"""Real ranks under real launchers: `wmtp launch` and torchrun, whole runs and broken ones."""
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.serial, pytest.mark.usefixtures("default_sighup")]

CONFIG = """
experiment: {name: launch-test, stage: baseline}
models: {policy: {path: micro, init: random}}
dataset: {train: rows.jsonl}
training: {learning_rate: 1.0e-4}
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    return condition()


class Held:
    """`doctor --collectives --hold` on several ranks, all of them inside collectives."""

    def __init__(self, wmtp, tmp_path, num_ranks, *flags):
        self.logs = tmp_path / "logs"
        self.process = subprocess.Popen(
            [wmtp.binary, "launch", "--nproc", str(num_ranks), "--log-dir", self.logs, *flags, "--",
             "doctor", "--collectives", "--device", "cpu", "--storage", tmp_path, "--hold", "60"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)})
        self.num_ranks = num_ranks
        self.ranks = wait_until(self._pids, 60)
        assert self.ranks, self.process.communicate(timeout=5)[0]

    def _pids(self):
        text = "".join(path.read_text() for path in self.logs.glob("rank_*.log"))
        pids = {int(rank): int(pid) for rank, pid in re.findall(r"holding rank (\d+) \(pid (\d+)\)", text)}
        return pids if len(pids) == self.num_ranks else None

    def log(self, rank):
        return (self.logs / f"rank_{rank:05}.log").read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        for pid in self.ranks.values():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_collectives_under_launch(wmtp, tmp_path):
    done = wmtp.run("launch", "--nproc", "3", "--", "doctor", "--collectives", "--device", "cpu",
                    "--storage", tmp_path)
    assert re.search(r"\[rank 0\] OK +collectives +3 ranks over gloo", done.stdout), done.stdout
    assert "[rank 1]" not in done.stdout


def test_json_stays_json_under_launch(wmtp, tmp_path):
    result = wmtp.json("launch", "--nproc", "2", "--", "doctor", "--collectives", "--device", "cpu",
                       "--storage", tmp_path)
    assert {check["name"]: check["status"] for check in result["checks"]}["collectives"] == "OK"


@pytest.fixture
def slowness(wmtp):
    """How much slower than an idle machine this one is just now: limits in seconds are scaled by it."""
    start = time.monotonic()
    wmtp.run("version")
    return max(1.0, (time.monotonic() - start) / 0.6)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_ends_all_within_two_seconds(wmtp, tmp_path, victim, slowness):
    with Held(wmtp, tmp_path, 3, "--max-restarts", "0") as held:
        os.kill(held.ranks[victim], signal.SIGKILL)
        start = time.monotonic()
        survivors = [pid for rank, pid in held.ranks.items() if rank != victim]
        assert wait_until(lambda: not any(map(alive, survivors)), 10)
        elapsed = time.monotonic() - start
        assert held.process.wait(timeout=10) == 137
        assert elapsed < 2 * slowness, f"survivors took {elapsed:.1f} s"
        for rank in held.ranks:
            if rank != victim:
                assert re.search(r"code 75|wmtp: \[comm\]", held.log(rank)), held.log(rank)


def test_a_killed_launcher_leaves_nothing(wmtp, tmp_path):
    with Held(wmtp, tmp_path, 3) as held:
        held.process.kill()
        assert wait_until(lambda: not any(map(alive, held.ranks.values())), 5)
    left = [path.name for path in tmp_path.glob("wmtp-ranks-*")]
    assert left, "a killed launcher cannot clear its folders: there is nothing to show"
    wmtp.run("launch", "--nproc", "1", "--", "version", env={"TMPDIR": str(tmp_path)})
    assert not list(tmp_path.glob("wmtp-ranks-*")), "the next launcher clears them"


def test_folders_in_use_are_left_alone(wmtp, tmp_path):
    """Another launcher's, and those of ranks that outlive theirs, which hold a lock on them."""
    def folders():
        return {str(path) for path in tmp_path.glob("wmtp-ranks-*")}

    def launch_another():
        wmtp.run("launch", "--nproc", "1", "--", "version", env={"TMPDIR": str(tmp_path)})
        return folders()

    with Held(wmtp, tmp_path, 2) as held:
        before = folders()
        held_by = [{os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()} & before
                   for pid in held.ranks.values()]
        assert len(before) == 2 and held_by[0] == held_by[1] and len(held_by[0]) == 1
        assert launch_another() == before
        place = os.open(held_by[0].pop(), os.O_RDONLY)
        fcntl.flock(place, fcntl.LOCK_SH)  # as a rank does that takes its time to save
        held.process.kill()
        held.process.wait()
        assert wait_until(lambda: not any(map(alive, held.ranks.values())), 5)
        assert launch_another() == {os.readlink(f"/proc/self/fd/{place}")}
        os.close(place)
        assert not launch_another()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_reaches_the_ranks(wmtp, tmp_path, number):
    with Held(wmtp, tmp_path, 2) as held:
        held.process.send_signal(number)
        assert held.process.wait(timeout=10) == 81  # a command that knows nothing of stops has saved nothing
        assert not any(map(alive, held.ranks.values()))


def test_a_restart_goes_on_by_itself(wmtp, tmp_path):
    with Held(wmtp, tmp_path, 2, "--max-restarts", "1") as held:
        os.kill(held.ranks[1], signal.SIGKILL)
        first = dict(held.ranks)
        assert wait_until(lambda: "==== restart 1" in held.log(1), 20)
        assert wait_until(lambda: held.log(1).count("holding rank 1") == 2, 60)
        assert not any(map(alive, first.values()))


@pytest.fixture
def config(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"instruction": "a", "output": "b"}\n')
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG.replace("rows.jsonl", str(tmp_path / "rows.jsonl")))
    return path


def test_train_says_what_is_missing(wmtp, tmp_path, config):
    run_dir = tmp_path / "run"
    error = wmtp.error("train", "--config", config, "--defaults", "none", "--device", "cpu",
                       "--run-dir", run_dir, code=78)
    assert "brings no tokenizer" in error["message"]
    last = json.loads((run_dir / "last_exit.json").read_text())
    assert last["code"] == 78 and last["rank"] == 0 and "time" in last
    assert (run_dir.stat().st_mode & 0o777) == 0o700


def test_ranks_with_different_configs_name_the_key(wmtp, tmp_path, config):
    rendezvous = tmp_path / "meet"
    rendezvous.mkdir(mode=0o700)
    ranks = []
    for rank, value in enumerate(["1e-4", "3e-4"]):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": "2", "WMTP_RENDEZVOUS": f"file://{rendezvous}",
               "WMTP_RUN_TOKEN": "ab" * 16}
        ranks.append(subprocess.Popen(
            [wmtp.binary, "train", "--config", config, "--defaults", "none", "--device", "cpu",
             "--run-dir", tmp_path / "run", "--override", f"training.learning_rate={value}"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    texts = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [78, 78], texts
    assert "training.learning_rate" in "".join(texts)
    assert json.loads((tmp_path / "run/last_exit.json").read_text())["code"] == 78


def test_a_bad_config_on_all_ranks_is_78(wmtp, tmp_path, config):
    config.write_text(config.read_text() + "nonsense: 1\n")
    done = wmtp.run("launch", "--nproc", "2", "--", "train", "--config", config, "--defaults", "none",
                    "--device", "cpu", check=False)
    assert done.returncode == 78
    assert "nonsense" in done.stderr


@pytest.mark.parametrize("device, text", [("mps", "mps"), ("cuda", "cuda was asked for")])
def test_a_device_that_is_not_there_is_78(wmtp, tmp_path, config, device, text):
    if device == "cuda" and wmtp.json("version")["cuda_plugin_loaded"]:
        pytest.skip("this machine has a GPU")
    error = wmtp.error("train", "--config", config, "--defaults", "none", "--device", device,
                       "--run-dir", tmp_path / "run", code=78)
    assert text in error["message"]


def torchrun(*args, **options):
    program = Path(sys.executable).with_name("torchrun")
    if not program.exists():
        pytest.skip("torchrun is not installed")
    return subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=100, **options)


def test_collectives_under_torchrun(wmtp, tmp_path):
    done = torchrun("--no-python", "--nproc_per_node=2", "--standalone", wmtp.binary, "doctor",
                    "--collectives", "--device", "cpu", "--storage", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"OK +collectives +2 ranks over gloo", done.stdout), done.stdout
    assert "torchrun" in done.stdout


def test_torchrun_learns_the_reason(wmtp, tmp_path, config):
    done = torchrun("--no-python", "--nproc_per_node=2", "--standalone", wmtp.binary, "train", "--config",
                    config, "--defaults", "none", "--device", "cpu", "--run-dir", tmp_path / "run")
    assert done.returncode != 0
    assert "brings no tokenizer" in done.stderr
    assert json.loads((tmp_path / "run/last_exit.json").read_text())["code"] == 78


def test_an_occupied_port_is_an_error_not_a_hang(wmtp, tmp_path):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        env = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2",
               "WMTP_RENDEZVOUS": f"tcp://127.0.0.1:{stranger.getsockname()[1]}"}
        start = time.monotonic()
        done = wmtp.run("doctor", "--collectives", "--device", "cpu", "--storage", tmp_path, env=env,
                        check=False, timeout=60)
    assert done.returncode == 78, done.stdout + done.stderr
    assert "port" in done.stdout + done.stderr
    assert time.monotonic() - start < 30


def test_doctor_probes_what_checkpoints_stand_on(wmtp, tmp_path):
    checks = {check["name"]: check for check in wmtp.json("doctor", "--storage", tmp_path)["checks"]}
    assert "locks and renames hold" in checks["storage"]["fact"]
    assert not list(tmp_path.iterdir()), "the probe leaves nothing behind"


def test_doctor_fails_on_a_missing_storage_folder(wmtp, tmp_path):
    done = wmtp.run("--json", "doctor", "--storage", tmp_path / "nowhere", check=False)
    assert done.returncode == 78
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["storage"]["status"] == "FAIL" and checks["storage"]["fix"]
    assert all(check["fix"] for check in checks.values() if check["status"] != "OK")
