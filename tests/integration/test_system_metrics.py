"""system/*: what the machines of all ranks do, in metrics.jsonl; and that reading them changes no number of training."""
import json
import math
import subprocess

import psutil
from tiny_runs import TinyRuns, losses_by_step, metrics, state_hash

HOST = ["cpu_utilization_percentage", "process_cpu_utilization_percentage", "system_memory_usage_megabytes",
        "system_memory_usage_percentage", "process_memory_usage_megabytes", "disk_usage_megabytes",
        "disk_usage_percentage", "disk_available_megabytes"]
# Not every machine has a network, or lets a process see what it reads and writes.
PERHAPS = ["network_receive_megabytes", "network_transmit_megabytes", "process_disk_read_megabytes",
           "process_disk_write_megabytes"]


def test_means_and_maxima_over_two_ranks(wmtp, tmp_path):
    runs = TinyRuns(wmtp, tmp_path, steps=30, every=30, lora=False)
    runs.run("often", ranks=2, tracking__system_interval_s=0.2, training__log_interval=1)
    runs.run("seldom", ranks=2, tracking__system_interval_s=1000.0, training__log_interval=1)
    points = [point for point in metrics(runs, "often") if "train/loss" in point]
    assert all(point["system/host_memory_gb"] > 0 for point in points)
    read = [point for point in points if f"system/{HOST[2]}" in point]
    assert len(read) >= 2
    for point in read:
        for name in HOST + PERHAPS:
            if (mean := point.get(f"system/{name}")) is not None:
                assert math.isfinite(mean) and 0 <= mean <= point[f"system/{name}_max"], name
    seen = {name for point in read for name in point}
    assert {f"system/{name}{end}" for name in HOST for end in ("", "_max")} <= seen
    assert not [name for name in seen if name.startswith("system/gpu")]  # these ranks have none
    last = read[-1]
    assert last["system/system_memory_usage_percentage_max"] <= 100 >= last["system/disk_usage_percentage_max"]
    # The peak of a process is in GiB and never falls; what it uses now is in MB.
    assert 1 < last["system/process_memory_usage_megabytes_max"] <= last["system/host_memory_gb"] * 2**30 / 1e6 * 1.01
    # No reading is told twice, and none changes training.
    seldom = [point for point in metrics(runs, "seldom") if f"system/{HOST[2]}" in point]
    assert len(seldom) <= 1 < len(read)
    assert losses_by_step(runs, "often") == losses_by_step(runs, "seldom")
    assert state_hash(runs.checkpoint("often", 30)) == state_hash(runs.checkpoint("seldom", 30))


def test_disk_and_memory_are_as_psutil_has_them(wmtp, tmp_path):
    before, disk_before = psutil.virtual_memory(), psutil.disk_usage(str(tmp_path))
    done = subprocess.run([wmtp.binary.parent / "wmtp_system_probe"], cwd=tmp_path, capture_output=True, text=True, check=True)
    ours = {name.removeprefix("system/"): value for name, value in json.loads(done.stdout).items()}
    after, disk_after = psutil.virtual_memory(), psutil.disk_usage(str(tmp_path))

    def between(value, one, other, slack):
        return min(one, other) - slack <= value <= max(one, other) + slack

    # Others write and allocate meanwhile: what they may do in a quarter of a second.
    assert between(ours["disk_usage_megabytes"], disk_before.used / 1e6, disk_after.used / 1e6, 500)
    assert between(ours["disk_available_megabytes"], disk_before.free / 1e6, disk_after.free / 1e6, 500)
    assert between(ours["disk_usage_percentage"], disk_before.percent, disk_after.percent, 1)
    total_mb = ours["system_memory_usage_megabytes"] / ours["system_memory_usage_percentage"] * 100
    if total_mb < before.total / 1e6 * 0.999:
        return  # a cgroup has less than the machine, of which psutil knows nothing
    used = [(memory.total - memory.available) / 1e6 for memory in (before, after)]
    assert between(ours["system_memory_usage_megabytes"], *used, 1000)
