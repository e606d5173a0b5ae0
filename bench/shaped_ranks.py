"""`wmtp bench ...` with one rank on each node of a shaped network."""
import json
import os
import secrets
import subprocess
from pathlib import Path

WMTP = os.environ.get("WMTP_BIN", str(Path(__file__).resolve().parent.parent / "build/bin/wmtp"))
PORT = 29643


class RanksFailed(Exception):
    """A rank ended with another code than 0, or none of them had a result."""


def run_ranks(network, words, most_cores=1):
    """Rank 0's result of `wmtp bench words...`. Ranks take the cores in turn, each up to `most_cores` where there are enough."""
    token, cores = secrets.token_hex(16), sorted(os.sched_getaffinity(0))
    each = max(1, min(most_cores, len(cores) // network.nodes))
    processes = []
    for rank in range(network.nodes):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(network.nodes), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "WMTP_RENDEZVOUS": f"tcp://{network.address(0)}:{PORT}", "WMTP_RUN_TOKEN": token}
        own = ",".join(str(cores[(rank * each + i) % len(cores)]) for i in range(each))
        command = network.command(rank, ["taskset", "-c", own, WMTP, "--json", "bench", *words])
        processes.append(subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    try:
        texts = [process.communicate()[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [process.returncode for process in processes]
    lines = [json.loads(line) for line in texts[0].splitlines() if line.startswith("{")]
    results = [line for line in lines if line.get("type") == "result"]
    if any(codes) or not results:
        raise RanksFailed(f"{' '.join(map(str, words))} ended with {codes}:\n" + "\n".join(texts))
    return results[-1]
