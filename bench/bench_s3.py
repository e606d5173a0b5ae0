#!/usr/bin/env python3
"""S3 beside Debian's awscli: the same bytes to and from the same server (Ceph), by turns, each side on a core of its own.

  python bench/bench_s3.py [file] [program] [run] [--mb 1000] [--rounds 3] [--out FOLDER]
file: one file, our client (upload_file and download_file, by the program wmtp_s3_probe) beside `aws s3 cp`.
program: a checkpoint of 334 MB, `wmtp checkpoint push` and `pull` beside `aws s3 cp --recursive`.
run: training that uploads every checkpoint, beside the same training without: what it waits for storage.
The server has core 0, the client core 1. awscli is taken as it is (10 requests at once) and with as many as ours (4); each
figure is compared with the better of the two. Medians of the rounds; CPU seconds are those of the client's process, user and
system. About 15 minutes. Other programs on these cores spoil the seconds and disturb the CPU seconds little.
"""
import argparse
import base64
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

BENCH = Path(__file__).resolve().parent
SERVER = BENCH.parent / "tests/support/servers/radosgw.sh"
WMTP = os.environ.get("WMTP_BIN", str(BENCH.parent / "build/bin/wmtp"))
PROBE = str(Path(WMTP).parent / "wmtp_s3_probe")
AWS = "/usr/bin/aws"  # Debian's; another one may come first in PATH
BUCKET = "wmtp-bench"
SERVER_CORE, CLIENT_CORE = 0, 1
AWS_CONCURRENCY = (10, 4)  # its own default, and that of storage.s3.concurrency
# awscli compares no bytes of what came in parts. Neither does our client for `wmtp checkpoint pull`, which has SHA-256s.
DOWN_CASES = {"": False, ", MD5 checked": True}

TRAINING = """
experiment: {{name: bench, stage: baseline}}
models:
  policy:
    path: micro
    name: bench
    tokenizer_path: {data}
    init: random
    dtype: fp32
    params: {{dim: 512, n_layers: 8, n_heads: 8, n_kv_heads: 8, head_dim: 64, ffn_dim: 1536}}
dataset: {{train: {data}/train.jsonl, validation: {data}/validation.jsonl, max_length: 112}}
data_sampling: {{n_samples: 64, val_n_samples: 4}}
training: {{n_epochs: 1000, max_steps: {steps}, batch_size: 4, learning_rate: 1e-3, eval_every_steps: 1000000}}
checkpoint: {{save_checkpoint_every: null, save_every_steps: {every}, save_total_limit: 2, export_on_finish: none}}
runtime: {{device: cpu, cache_dir: {data}/cache, threads: 1}}
"""


class Cost(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mb: float


def fail(text):
    sys.exit(f"bench_s3: {text}")


def clean_environment(more):
    """Without what a user has set up for AWS or as a proxy."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("AWS_") and not name.lower().endswith("_proxy") and name not in ("SSL_CERT_FILE", "CURL_CA_BUNDLE")}
    return {**kept, "AWS_PAGER": "", **more}


def measured(command, env, job=None, core=CLIENT_CORE):
    """Runs it to its end: (Cost, stdout). `job` goes to its stdin. Peaks below this script's own, about 15 MB, are not seen."""
    os.sync()  # what was written before is not to be paid for now
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        given.write((job or "").encode())
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdin=given, stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = out.read().decode()
        if process.returncode:
            fail(f"{command} ended with {process.returncode}:\n{text[-2000:]}{err.read().decode()[-2000:]}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000), text


# --- the server --------------------------------------------------------------------------------------


class Gateway(NamedTuple):
    urls: dict  # by scheme
    env: dict  # keys, region, and the certificate that is to be trusted


def server(verb, folder, **env):
    done = subprocess.run(["taskset", "-c", str(SERVER_CORE), SERVER, verb, folder], capture_output=True, text=True,
                          env={**os.environ, **env})
    if done.returncode:
        fail(f"{SERVER.name} {verb}: {done.stderr}")
    return done.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def make_certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "certificate.pem"], check=True, capture_output=True)


@contextlib.contextmanager
def gateway(folder, store_bytes):
    """An empty one with a bucket, over http and https, for as long as the block lasts."""
    try:
        started = server("start", folder, WMTP_S3_BYTES=str(store_bytes))
        variables = dict(re.findall(r"export (\w+)=(.*)", started))
        make_certificate(folder)
        port = free_port()
        server("down", folder)
        conf = folder / "radosgw/ceph.conf"
        tls = f"ssl_endpoint=127.0.0.1:{port} ssl_certificate={folder}/certificate.pem ssl_private_key={folder}/key.pem"
        conf.write_text(re.sub(r"(?m)^(rgw frontends = .*)$", rf"\1 {tls}", conf.read_text()))
        server("up", folder)
        urls = {"http": variables.pop("AWS_ENDPOINT_URL_S3"), "https": f"https://127.0.0.1:{port}"}
        env = clean_environment({**variables, "AWS_CA_BUNDLE": str(folder / "certificate.pem")})
        measured([AWS, "--endpoint-url", urls["http"], "s3", "mb", f"s3://{BUCKET}"], env)
        yield Gateway(urls, env)
    finally:
        server("stop", folder)


@contextlib.contextmanager
def fresh_gateway(place, store_bytes):
    with tempfile.TemporaryDirectory(dir=place, prefix="gateway-") as folder, gateway(Path(folder), store_bytes) as made:
        yield made


# --- both sides --------------------------------------------------------------------------------------


def aws_copy(gate, place, scheme, concurrency, source, target, *flags):
    config = place / f"aws-{concurrency}.ini"
    config.write_text(f"[default]\ns3 =\n  max_concurrent_requests = {concurrency}\n")
    return measured([AWS, "--endpoint-url", gate.urls[scheme], "s3", "cp", "--quiet", *flags, source, target],
                    {**gate.env, "AWS_CONFIG_FILE": str(config)})[0]


def our_copy(gate, scheme, operation, name, path, checksum="md5", check_etag=True):
    options = {"bucket": BUCKET, "endpoint": gate.urls[scheme], "checksum": checksum}
    if scheme == "https":
        options["ca_file"] = gate.env["AWS_CA_BUNDLE"]
    job = {"options": options, "op": operation, "name": base64.b64encode(name.encode()).decode(), "path": str(path),
           "check_etag": check_etag}
    cost, text = measured([PROBE], gate.env, json.dumps(job) + "\n")
    reply = json.loads(text)
    if reply.get("text") or reply["bytes"] != Path(path).stat().st_size:
        fail(f"{operation}: {reply}")
    return cost


def our_program(gate, *words):
    return measured([WMTP, "--json", "checkpoint", *words], {**gate.env, "AWS_ENDPOINT_URL_S3": gate.urls["http"]})[0]


def make_file(path, num_bytes):
    with open(path, "wb") as file:
        for at in range(0, num_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, num_bytes - at)))


class Figures:
    """Costs by case and side."""

    def __init__(self):
        self.costs = {}

    def add(self, case, side, cost):
        self.costs.setdefault(case, {}).setdefault(side, []).append(cost)
        print(f"  {case:28} {side:9} {cost.wall_s:6.2f} s {cost.cpu_s:6.2f} CPU s {cost.peak_mb:6.0f} MB", file=sys.stderr, flush=True)

    def medians(self, case):
        return {side: Cost(*map(median, zip(*costs))) for side, costs in self.costs[case].items()}


def show(figures, goals):
    """goals: {case: (least throughput, most CPU)}, of awscli's."""
    print(f"{'':28} {'seconds':>15} {'CPU seconds':>15} {'peak MB':>15}   {'throughput':20} {'CPU time'}")
    print(f"{'':28}" + f" {'awscli    ours':>15}" * 3)
    for case, (least_speed, most_cpu) in goals.items():
        sides = figures.medians(case)
        ours = sides.pop("ours")
        aws = Cost(*(min(one[at] for one in sides.values()) for at in range(3)))
        pairs = " ".join(f"{theirs:8.{digits}f}{mine:7.{digits}f}" for theirs, mine, digits in zip(aws, ours, (2, 2, 0)))
        speed, cpu = aws.wall_s / ours.wall_s, ours.cpu_s / aws.cpu_s
        verdicts = [verdict(speed, least_speed, speed >= (least_speed or 0), ">="), verdict(cpu, most_cpu, cpu <= (most_cpu or cpu), "<=")]
        print(f"{case:28} {pairs}   {verdicts[0]:20} {verdicts[1]}")


def verdict(figure, goal, is_met, sign):
    if goal is None:
        return f"{figure:.2f}"
    return f"{figure:.2f} ({sign} {goal}{'' if is_met else ', MISSED'})"


# --- the three parts ---------------------------------------------------------------------------------


def compare_uploads(figures, place, file, scheme, checksums):
    with fresh_gateway(place, 6 * file.stat().st_size + (1 << 30)) as gate:
        for concurrency in AWS_CONCURRENCY:
            cost = aws_copy(gate, place, scheme, concurrency, file, f"s3://{BUCKET}/aws")
            for checksum in checksums:
                figures.add(f"up, {scheme}, {checksum}", f"aws {concurrency}", cost)
        for checksum in checksums:
            figures.add(f"up, {scheme}, {checksum}", "ours", our_copy(gate, scheme, "upload", "ours", file, checksum))


def compare_downloads(figures, place, file, scheme):
    """With a store of its own: one that is full leaves little memory for the files that are written."""
    back = place / "back"
    with fresh_gateway(place, 2 * file.stat().st_size + (1 << 30)) as gate:
        our_copy(gate, scheme, "upload", "ours", file)
        for concurrency in AWS_CONCURRENCY:
            cost = aws_copy(gate, place, scheme, concurrency, f"s3://{BUCKET}/ours", back)
            back.unlink()
            for case in DOWN_CASES:
                figures.add(f"down, {scheme}{case}", f"aws {concurrency}", cost)
        for case, check_etag in DOWN_CASES.items():
            figures.add(f"down, {scheme}{case}", "ours", our_copy(gate, scheme, "download", "ours", back, check_etag=check_etag))
            if subprocess.run(["cmp", file, back]).returncode:
                fail("other bytes came back")
            back.unlink()


def compare_files(place, args):
    file = place / "file"
    make_file(file, args.mb * 1_000_000)
    figures = Figures()
    for _ in range(args.rounds):
        for scheme, checksums in (("http", ("md5",)), ("https", ("md5", "none"))):
            compare_uploads(figures, place, file, scheme, checksums)
            compare_downloads(figures, place, file, scheme)
    file.unlink()
    print(f"one file of {args.mb} MB, medians of {args.rounds}")
    show(figures, {"up, http, md5": (0.9, 1.0), "up, https, md5": (0.9, None), "up, https, none": (0.9, 0.4),
                   "down, http": (0.9, 0.4), "down, https": (0.9, 0.4),
                   "down, http, MD5 checked": (None, None), "down, https, MD5 checked": (None, None)})


def write_config(place, steps, every):
    data = place / "data"
    if not data.exists():
        measured([WMTP, "data", "demo", "--out", data, "--rows", "80", "--seed", "3"], clean_environment({}))
    config = place / f"run-{steps}.yaml"
    config.write_text(TRAINING.format(data=data, steps=steps, every=every))
    return config


def train(config, folder, env, *overrides):
    flags = [word for text in overrides for word in ("--override", text)]
    command = [WMTP, "--json", "train", "--config", config, "--defaults", "none", "--run-dir", folder, *flags]
    return measured(command, {**env, "OMP_NUM_THREADS": "1"})[0]


def compare_program(place, args):
    train(write_config(place, steps=1, every=1), place / "made", clean_environment({}))
    newest = place / "made/checkpoints/bench-1steps"
    num_bytes = sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    figures = Figures()
    for _ in range(args.rounds):
        with fresh_gateway(place, 6 * num_bytes + (1 << 30)) as gate:
            for concurrency in AWS_CONCURRENCY:
                figures.add("push", f"aws {concurrency}", aws_copy(gate, place, "http", concurrency, newest, f"s3://{BUCKET}/aws", "--recursive"))
            figures.add("push", "ours", our_program(gate, "push", newest, f"s3://{BUCKET}/ours"))
            for concurrency in AWS_CONCURRENCY:
                cost = aws_copy(gate, place, "http", concurrency, f"s3://{BUCKET}/ours/{newest.name}", place / "back", "--recursive")
                figures.add("pull", f"aws {concurrency}", cost)
                shutil.rmtree(place / "back")
            figures.add("pull", "ours", our_program(gate, "pull", f"s3://{BUCKET}/ours/{newest.name}", place / "back"))
            if subprocess.run(["diff", "-r", newest, place / "back" / newest.name]).returncode:
                fail("other bytes came back")
            shutil.rmtree(place / "back")
    print(f"a checkpoint of {num_bytes / 1e6:.0f} MB, http, medians of {args.rounds}; ours holds every file against its SHA-256")
    show(figures, {"push": (None, None), "pull": (None, None)})


def compare_runs(place, args):
    config = write_config(place, args.steps, args.every)
    rows = {"with": [], "without": []}
    for turn in range(args.rounds):
        with fresh_gateway(place, 24 << 30) as gate:
            env = {**gate.env, "AWS_ENDPOINT_URL_S3": gate.urls["http"]}
            for kind, words in (("without", ()), ("with", ("checkpoint.s3_upload=true", f"storage.s3.bucket={BUCKET}"))):
                folder = place / f"{kind}-{turn}"
                cost = train(config, folder, env, *words)
                points = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                rows[kind].append((cost, points))
                shutil.rmtree(folder / "checkpoints")
    show_runs(rows, args)


def training_s(points):
    times = [point["time"] for point in points if "train/loss" in point]
    return times[-1] - times[0]


def show_runs(rows, args):
    last = [[point for point in points if "s3/bytes_up" in point][-1] for _, points in rows["with"]]
    wall = {kind: median(cost.wall_s for cost, _ in runs) for kind, runs in rows.items()}
    steps = {kind: median(training_s(points) for _, points in runs) for kind, runs in rows.items()}
    peak = {kind: median(cost.peak_mb for cost, _ in runs) for kind, runs in rows.items()}
    shares = [point["s3/caller_s"] / cost.wall_s for point, (cost, _) in zip(last, rows["with"])]
    print(f"a run of {args.steps} steps with a save every {args.every}, medians of {args.rounds}")
    print(f"training waits for uploads       {1000 * median(point['s3/caller_s'] for point in last):.1f} ms"
          f" = {100 * median(shares):.3f} % of the run (<= 1 %); {median(point['s3/bytes_up'] for point in last) / 1e6:.0f} MB went up")
    print(f"from the first to the last step  {steps['with']:.1f} s with uploads, {steps['without']:.1f} s without")
    print(f"the run, start to end            {wall['with']:.1f} s with uploads, {wall['without']:.1f} s without")
    print(f"peak memory                      {peak['with']:.0f} MB with uploads, {peak['without']:.0f} MB without")


PARTS = {"file": compare_files, "program": compare_program, "run": compare_runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--mb", type=int, default=1000, help="size of the file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="of a run")
    parser.add_argument("--every", type=int, default=10, help="steps between two saves of a run")
    parser.add_argument("--out", type=Path, help="on the disk to use; default: a temporary folder")
    args = parser.parse_args()
    unknown = [name for name in args.parts if name not in PARTS]
    if unknown:
        fail(f"no part called {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    for program in (AWS, WMTP, PROBE):
        if not os.access(program, os.X_OK):
            fail(f"no {program}: `make bench BENCH=s3` sets up and builds what is needed")
    if os.cpu_count() < 2:
        fail("needs two cores")
    version = subprocess.run([AWS, "--version"], capture_output=True, text=True).stdout.split()[0]
    print(f"{version}, {PROBE}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir=args.out, prefix="bench-s3-") as folder:
        for name in args.parts or PARTS:
            PARTS[name](Path(folder), args)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
