#!/usr/bin/env python3
"""Steps of `wmtp train` where attention's documents differ in length, timed as `wmtp bench step` times its own:

  python3 bench/gpu_train.py BUNDLE/bin/wmtp --attention cudnn [--deterministic] [--device cpu --preset micro-qwen3 --seq 256 ...]
One JSON line: seconds of a step, tokens/s and peak memory, medians after the first five steps. `wmtp bench step` knows neither key.
A row is full of documents of 64 to 16,000 bytes of text, drawn with a seed, of which each attends to itself alone.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

WARM = 5


def write_text(demo, file, num_bytes):
    """Documents of the demonstration's text, an empty line between them."""
    draw, source, documents = random.Random(7), demo.read_text().replace("\n\n", "\n"), []
    while num_bytes > 0:
        length = min(int(2 ** draw.uniform(6, 14)), len(source) - 1)
        first = draw.randrange(len(source) - length)
        documents.append(source[first:first + length].strip("\n"))
        num_bytes -= length
    file.write_text("\n\n".join(documents) + "\n")


def keys(args):
    yield from {"experiment.name": "packed", "experiment.stage": "baseline", "models.policy.path": args.preset,
                "models.policy.name": "packed", "models.policy.tokenizer_path": "demo", "models.policy.init": "random",
                "dataset.train": "train.txt", "dataset.format": "text", "dataset.max_length": args.seq,
                "dataset.text.document_separator": "blank_line", "dataset.text.document_mask": "true",
                "training.batch_size": args.batch, "training.max_steps": args.steps, "training.log_interval": 1,
                "training.learning_rate": 1e-5,
                "checkpoint.save_checkpoint_every": "null", "checkpoint.save_final": "false", "checkpoint.export_on_finish": "none",
                "distributed.fsdp.activation_checkpointing": "none", "runtime.threads": args.threads,
                "runtime.attention": args.attention, "runtime.deterministic": str(args.deterministic).lower()}.items()
    if args.device == "cuda":
        yield "distributed.fsdp.param_dtype", "bf16"


def train(args, folder):
    subprocess.run([args.wmtp, "data", "demo", "--out", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    write_text(folder / "demo/text.txt", folder / "train.txt", 4 * args.steps * args.batch * args.seq)
    (folder / "run.yaml").write_text("")
    command = [args.wmtp, "train", "--config", "run.yaml", "--defaults", "none", "--device", args.device, "--run-dir", "run"]
    for key, value in keys(args):
        command += ["--override", f"{key}={value}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}\nwmtp train ended with {done.returncode}")
    points = [json.loads(line) for line in (folder / "run/metrics.jsonl").open()]
    return [point for point in points if "train/loss" in point]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wmtp", type=pathlib.Path)
    parser.add_argument("--attention", choices=["auto", "cudnn", "flash", "reference"], default="auto")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--preset", default="qwen3-0.6b")
    for name, default in dict(batch=2, seq=8192, steps=40, threads=8).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    if args.steps <= WARM:
        parser.error(f"--steps {args.steps}: the first {WARM} are left out")
    args.wmtp = args.wmtp.resolve()
    with tempfile.TemporaryDirectory() as folder:
        points = train(args, pathlib.Path(folder))
    if len(points) != args.steps:
        sys.exit(f"{len(points)} of {args.steps} steps were told")

    def median(name):
        values = [point[name] for point in points[WARM:] if name in point]
        return statistics.median(values) if values else None
    peaks = [point["system/gpu_memory_peak_gb"] for point in points if "system/gpu_memory_peak_gb" in point]
    print(json.dumps({
        "peer": "wmtp train", "preset": args.preset, "batch": args.batch, "seq": args.seq, "attention": args.attention,
        "deterministic": args.deterministic, "step_s": median("perf/step_time_ms") / 1e3,
        "tok_s_rank": median("perf/tokens_per_sec"), "peak_gib": max(peaks, default=None),
        "first_loss": points[0]["train/loss"], "loss": points[-1]["train/loss"]}))


if __name__ == "__main__":
    main()
