#!/usr/bin/env python3
"""`comm/*` of runs on a GPU: python3 tests/gpu/comm_figures.py BUNDLE

  one rank                     nothing is moved and nobody waits
  two ranks on one GPU (gloo)  the bytes of the same run on a CPU; the stream's waits are a share of the step, from the third
                               report on at the latest (a step is timed two steps before); the first loss as on the CPU
  log_interval 5               steps 3, 8, ... are timed: every report but the first, of step 1, has times
Exit 1 if a comparison fails.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

WMTP = str(pathlib.Path(sys.argv[1]).resolve() / "bin/wmtp")
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
SHARED = ["distributed.backend=gloo", "distributed.allow_shared_gpu=true"]
failures = []


def expect(what, holds):
    print(("ok      " if holds else "FAILED  ") + what)
    if not holds:
        failures.append(what)


def train(folder, name, *overrides, ranks=1, device="cuda", steps=10, interval=1):
    """The points of the run's reported steps."""
    launch = ["launch", "--nproc", str(ranks), "--max-restarts", "0", "--"] if ranks > 1 else []
    command = [WMTP, *launch, "train", "--config", "micro/baseline.yaml", "--run-dir", f"runs/{name}", "--device", device]
    for override in [f"training.max_steps={steps}", f"training.log_interval={interval}", f"training.eval_every_steps={steps}",
                     "models.policy.dtype=fp32", "distributed.fsdp.param_dtype=fp32", *overrides]:
        command += ["--override", override]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    points = [json.loads(line) for line in (folder / "runs" / name / "metrics.jsonl").open()]
    return [point for point in points if "train/loss" in point]


def series(points, name):
    return [point[name] for point in points]


folder = pathlib.Path(tempfile.mkdtemp())
shutil.copy(CONFIGS / "defaults.yaml", folder)
shutil.copytree(CONFIGS / "micro", folder / "micro")
subprocess.run([WMTP, "data", "demo", "--out", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

alone = train(folder, "alone")
expect("one rank: all zero", not any(value for point in alone for name, value in point.items() if name.startswith("comm/")))

for strategy in ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
    key = f"distributed.fsdp.sharding_strategy={strategy}"
    host = train(folder, f"cpu-{strategy}", key, ranks=2, device="cpu")
    gpu = train(folder, f"gpu-{strategy}", key, *SHARED, ranks=2)
    for name in sorted(name for name in gpu[0] if name.startswith("comm/") and name.endswith("_mb")):
        expect(f"{strategy}: {name} as on a CPU", series(gpu, name) == series(host, name))
    shares = series(gpu, "comm/wait_share")
    print(json.dumps({"strategy": strategy, "wait_share": shares, "wait_ms": series(gpu, "comm/wait_ms")}))
    expect(f"{strategy}: a share of the step", all(0 < share < 1 for share in shares[2:]))
    expect(f"{strategy}: it lasts at least as long as it is waited for", all(
        sum(value for name, value in point.items() if name.startswith("comm/") and name.endswith("_ms") and name != "comm/wait_ms")
        >= 0.999 * point["comm/wait_ms"] for point in gpu))
    first, wanted = gpu[0]["train/loss"], host[0]["train/loss"]
    expect(f"{strategy}: first loss as on a CPU", abs(first - wanted) <= 1e-3 * wanted)

rare = train(folder, "rare", *SHARED, ranks=2, steps=20, interval=5)
expect("log_interval 5: steps 1, 5, 10, ...", series(rare, "step") == [1, 5, 10, 15, 20])
expect("log_interval 5: times from the second report on", [share > 0 for share in series(rare, "comm/wait_share")] == [False] + [True] * 4)
sys.exit(1 if failures else 0)
