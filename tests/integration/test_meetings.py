"""Ranks that meet over a socket: strangers at the store's port, and one exit code for a meeting that fails."""
import random
import resource
import socket
import struct
import subprocess

import pytest

from tiny_runs import TinyRuns, environment, metrics, wait_for

STEPS = 30
SLOW = "step.begin:nth=1+=sleep:100"
# c10d's store: a connection begins with this query and this number, a ping (13) is answered with the number it carries.
HELLO = bytes([0]) + struct.pack("<I", 0x3C85F7CE)
PING = bytes([13])


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    return TinyRuns(wmtp, tmp_path_factory.mktemp("meetings"), steps=STEPS, every=10)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def few_descriptors():
    """As most shells have it, only fewer."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def start(runs, name, port, world=2, failpoint=None, odd=None, **overrides):
    """Ranks without a launcher; `odd` has overrides of rank 0 alone."""
    processes = []
    for rank in range(world):
        env = {**environment(failpoint), "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
               "LOCAL_WORLD_SIZE": str(world), "WMTP_RENDEZVOUS": f"tcp://127.0.0.1:{port}",
               "WMTP_RUN_TOKEN": "ab" * 16}
        command = runs.command(name, **overrides, **(odd if odd and rank == 0 else {}))
        with open(runs.folder / f"{name}.{rank}.log", "w") as log:
            processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT,
                                              preexec_fn=few_descriptors))
    return processes


def ends(runs, name, processes):
    codes = [process.wait(120) for process in processes]
    return codes, "".join((runs.folder / f"{name}.{rank}.log").read_text() for rank in range(len(processes)))


def knock(port, kind, numbers):
    """One hostile connection; a half-open one is given back, to be kept."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=30)
    noise = numbers.randbytes(numbers.randrange(1, 2000))
    try:
        stranger.sendall({"random": noise, "http": b"GET / HTTP/1.1\r\nHost: store\r\n\r\n", "half-open": b"\0",
                          "hello and noise": HELLO + noise, "hello and gone": HELLO + (PING + b"1234") * 8}[kind])
    except ConnectionError:
        pass  # it was thrown out already
    if kind == "half-open":
        return stranger
    stranger.close()
    return None


def test_a_thousand_strangers_do_no_harm(runs):
    """While it trains and saves: the ranks end as if nothing had been."""
    port = free_port()
    processes = start(runs, "strangers", port, failpoint=SLOW, training__log_interval=1, checkpoint__async=False)
    folder = runs.folder / "strangers"
    wait_for(lambda: (folder / "metrics.jsonl").exists() or processes[0].poll() is not None)
    numbers = random.Random(7)
    kinds = ["random", "http", "half-open", "hello and noise", "hello and gone", "half-open"]
    kept = [knock(port, kinds[i % len(kinds)], numbers) for i in range(1000)]
    codes, text = ends(runs, "strangers", processes)
    assert codes == [0, 0], text
    assert len(kept) == 1000 and runs.steps("strangers") == [10, 20, 30]
    assert [point["step"] for point in metrics(runs, "strangers") if "train/loss" in point] == list(range(1, STEPS + 1))


def test_a_rank_0_that_cannot_start_tells_the_others(runs):
    """It serves the store: it must not leave before they have read its reason."""
    processes = start(runs, "refused", free_port(), world=3, odd={"training__learning_rate": -1})
    codes, text = ends(runs, "refused", processes)
    assert codes == [78, 78, 78], text
    assert "training.learning_rate: -1 is out of range" in text


def test_an_occupied_port_is_one_code(runs):
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        name = "occupied"
        processes = start(runs, name, stranger.getsockname()[1], distributed__rendezvous_timeout_s=2)
        codes, text = ends(runs, name, processes)
    assert codes == [78, 78], text
    assert "is occupied" in text and "something else, or a run with another token" in text
