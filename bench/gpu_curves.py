#!/usr/bin/env python3
"""Learning curves on one GPU: Qwen3-0.6B from drawn weights, 500 steps of generated text, by wmtp in several precisions and by a twin.

  bench/gpu.sh BUNDLE OUT curves
  python3 bench/gpu_curves.py BUNDLE OUT [--recipes twin,bf16,int8] [--seeds 2] [--jobs 6] [--seconds 420] | BUNDLE OUT --table
  python3 bench/gpu_curves.py BUNDLE OUT --device cpu --preset micro-qwen3 --steps 60 --seq 128 --jobs 1 --recipes twin,bf16

The twin is the model of anchor_fsdp2.py under PyTorch FSDP2 (fp32 masters, bf16 compute, blocks and loss compiled; on CPUs fp32, not
compiled) with the same AdamW, clipping and schedule. The text is that of `wmtp data demo`. A seed draws the weights and the order of its
rows, each of them full and read once; both sides begin with one folder of weights, and the twin takes the rows that `wmtp data inspect`
names. Every run is a process of its own, --jobs at once on the one GPU, since losses are compared and not speed. OUT/curves.jsonl has a
line for each with its whole curve, `final` is the mean of its last 20 losses; a run of this program and these settings that is there
already is not repeated. --table: only what OUT has. What must hold of ours: `final` < 0.7 of the first loss; the
first loss is the twin's but for rounding (2e-3, on CPUs 1e-5); the distance of `final` from the twin's, in the mean over the seeds, is at
most that between the twin's own seeds. Exit 1: something does not hold or has failed; 75: cut short, by --seconds or $GPU_DEADLINE.
"""
import argparse
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from statistics import mean

from gpu_records import CUT_SHORT, machine_state

LAST, LEARNT, ROUNDING = 20, 0.7, {"cuda": 2e-3, "cpu": 1e-5}
WARM_UP, FLOOR = 0.1, 0.1  # shares of the steps and of the rate
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
RATES = {"qwen3-0.6b": 3e-4, "micro-qwen3": 3e-3}
RECIPES = {"twin": None, "bf16": {}}
RECIPES |= {name: {"training.optimizer.precision": name} for name in ("bf16_moments", "bf16_sr", "int8")}
RECIPES |= {f"float8_{name}": {"training.float8": name} for name in ("tensorwise", "rowwise")}
BLOCK = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
         "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm", "w1": "mlp.gate_proj", "w3": "mlp.up_proj",
         "w2": "mlp.down_proj", "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def shape_of(preset):
    from anchor_fsdp2 import PRESETS, Shape
    return (PRESETS | {"micro-qwen3": Shape(128, 4, 4, 2, 64, 384, 512, 1, 1e6, 1e-6, qk_norm=True, tied=True)})[preset]


def names_of(shape):
    """The twin's names of the weights -> those of transformers."""
    names = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}
    return names | {f"trunk.{i}.{a}.weight": f"model.layers.{i}.{b}.weight" for i in range(shape.blocks) for a, b in BLOCK.items()}


def rate_at(step, args):
    """wmtp's warm-up and cosine."""
    warm = int(args.steps * WARM_UP)
    if step < warm:
        return args.rate * (step + 1) / (warm + 1)
    return args.rate * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * (step - warm) / (args.steps - warm))) / 2)


def twin(args, folder, run):
    import torch
    import torch.distributed as dist
    from anchor_fsdp2 import MtpModel
    from safetensors.torch import load_file
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    cuda, shape = args.device == "cuda", shape_of(args.preset)
    torch.set_num_threads(threads_of(args))
    # The store is this process's own: twins that run at once have no port to quarrel about.
    dist.init_process_group("nccl" if cuda else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    with torch.device(args.device):
        model = MtpModel(shape, cuda)
    weights = load_file(folder / "final/model.safetensors", device=args.device)
    state = {name: weights[stored] for name, stored in names_of(shape).items()}
    model.load_state_dict(state | {"unembedding.weight": state["embedding.weight"]})
    del weights, state
    # FSDP2 would otherwise round the angles of the positions, which are inputs, to bf16.
    bf16 = dict(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False) if cuda else {}
    options = dict(mesh=init_device_mesh(args.device, (1,)), mp_policy=MixedPrecisionPolicy(**bf16))
    for block in model.trunk:
        if cuda:
            block.compile(fullgraph=True)
        fully_shard(block, **options)
    fully_shard(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), betas=BETAS, eps=EPS, weight_decay=DECAY, fused=True)
    tokens = torch.tensor(json.loads((folder / "rows.json").read_text())).view(args.steps, args.batch, args.seq)
    angles = torch.outer(torch.arange(args.seq).float(),
                         1.0 / shape.theta ** (torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)).to(args.device)
    with (run / "metrics.jsonl").open("w") as file:
        for step in range(args.steps):
            rows = tokens[step].to(args.device)
            optimizer.param_groups[0]["lr"] = rate_at(step, args)
            loss = model(rows, rows, angles.cos(), angles.sin())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            peak = {"system/gpu_memory_peak_gb": torch.cuda.max_memory_allocated() / 2**30} if cuda else {}
            print(json.dumps({"train/loss": loss.item(), "train/learning_rate": rate_at(step, args)} | peak), file=file, flush=True)
    os._exit(0)  # PyTorch's Gloo threads now and then abort an orderly exit


def threads_of(args):
    return max((os.cpu_count() or 1) // args.jobs, 1)


def wmtp(words, args, folder, seed, run, more):
    demo = folder.parent / "demo"
    keys = {"experiment.name": "curves", "experiment.stage": "baseline", "models.policy.path": folder / "final",
            "models.policy.tokenizer_path": demo, "dataset.train": demo / "text.txt", "dataset.format": "text",
            "dataset.max_length": args.seq, "dataset.cache_dir": run / "cache", "data_sampling.seed": seed,
            "training.batch_size": args.batch, "training.max_steps": args.steps, "training.log_interval": 1,
            "training.learning_rate": args.rate, "training.max_grad_norm": CLIP, "training.optimizer.betas": list(BETAS),
            "training.optimizer.eps": EPS, "training.optimizer.weight_decay": DECAY, "training.optimizer.no_decay": "none",
            "training.lr_scheduler.type": "cosine", "training.lr_scheduler.warmup_steps": int(args.steps * WARM_UP),
            "training.lr_scheduler.min_lr_ratio": FLOOR, "distributed.fsdp.activation_checkpointing": "none",
            "checkpoint.save_checkpoint_every": "null", "checkpoint.save_final": "false", "checkpoint.export_on_finish": "none",
            "runtime.device": args.device, "runtime.run_dir": run, "runtime.seed": seed, "runtime.threads": threads_of(args)}
    words = [args.bundle / "bin/wmtp", *words, "--config", demo / "run.yaml", "--defaults", "none"]
    return words + [word for key, value in (keys | more).items() for word in ("--override", f"{key}={value}")]


def answer(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}\n{words[0]} {words[1:2]} ended with {done.returncode}")
    return done.stdout


def prepare(args, folder, seed):
    """The weights of a seed, which a run of one step draws and leaves as they are, and its rows in the order in which wmtp takes them."""
    folder.mkdir()
    drawn = {"models.policy.path": args.preset, "models.policy.init": "random", "training.max_steps": 1, "training.batch_size": 1,
             "training.learning_rate": 1e-30, "training.optimizer.weight_decay": 0, "checkpoint.export_on_finish": "hf"}
    answer(*wmtp(["train"], args, folder, seed, folder, drawn))
    count = args.steps * args.batch
    said = answer(*wmtp(["--json", "data", "inspect", "--sample", count], args, folder, seed, folder, {})).splitlines()[-1]
    rows = [each["ids"] for each in json.loads(said)["sequences"]]
    if [len(row) for row in rows] != [args.seq] * count:
        sys.exit(f"{len(rows)} rows of text, not {count} of {args.seq} tokens")
    (folder / "rows.json").write_text(json.dumps(rows))


def settings(args):
    return {name: getattr(args, name) for name in ("preset", "device", "batch", "seq", "steps")}


def program(args):
    return answer(args.bundle / "bin/wmtp", "version").splitlines()[:1]


def known_records(args, **facts):
    """Of OUT, what has these facts; of runs that were repeated the last one."""
    path, known = args.out / "curves.jsonl", {}
    for record in map(json.loads, path.open()) if path.exists() else ():
        if all(record[name] == value for name, value in facts.items()):
            known[record["recipe"], record["seed"]] = record
    return list(known.values())


def record_of(args, run, rc):
    """What came of a run, also of one that failed or was cut short, within a line perhaps."""
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True) if (run / "metrics.jsonl").exists() else []
    points = [point for point in map(json.loads, (line for line in lines if line.endswith("\n"))) if "train/loss" in point]
    losses = [math.nan if point["train/loss"] is None else point["train/loss"] for point in points]
    return dict(rc=rc, **settings(args), first=losses[0] if losses else None,
                final=mean(losses[-LAST:]) if rc == 0 and len(losses) == args.steps else None, losses=losses,
                rates=[point["train/learning_rate"] for point in points],
                peak_gib=max((point.get("system/gpu_memory_peak_gb", 0) for point in points), default=None),
                error=(run / "output").read_text(errors="replace").splitlines()[-5:] if rc else [])


def begin(args, folder, recipe, seed):
    drawn, run = folder / f"seed-{seed}", folder / f"{recipe}-{seed}"
    run.mkdir()
    words = wmtp(["train"], args, drawn, seed, run, RECIPES[recipe] or {})
    if recipe == "twin":
        words = [sys.executable, os.path.abspath(__file__), args.bundle, args.out, "--twin", drawn, run]
        words += [f"--{name}={getattr(args, name)}" for name in ("device", "preset", "steps", "batch", "seq", "rate", "jobs")]
    with (run / "output").open("w") as output:
        process = subprocess.Popen([str(word) for word in words], stdout=output, stderr=subprocess.STDOUT, process_group=0)
    return process, recipe, seed, run, time.monotonic()


def run_all(args, folder, records, waiting, deadline):
    """The records with those of `waiting`, each written when its run ends, and whether there was time for all."""
    running, facts = [], dict(commit=program(args), gpu=machine_state())

    def end(each):
        process, recipe, seed, run, started = each
        running.remove(each)
        rc = "cut short" if process.poll() is None else process.returncode
        if rc == "cut short":
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = round(time.monotonic() - started, 1)
        records.append(dict(recipe=recipe, seed=seed, seconds=seconds) | record_of(args, run, rc) | facts)
        with (args.out / "curves.jsonl").open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        print(f"{recipe}, seed {seed}: {rc} after {len(records[-1]['losses'])} steps and {seconds} s, final loss {records[-1]['final']}",
              *records[-1]["error"], sep="\n  ", flush=True)
    try:
        while running or (waiting and time.monotonic() < deadline):
            while waiting and len(running) < args.jobs and time.monotonic() < deadline:
                running.append(begin(args, folder, *waiting.pop(0)))
            time.sleep(0.2)
            for each in [each for each in running if each[0].poll() is not None or time.monotonic() > deadline]:
                end(each)
    finally:
        for each in list(running):
            end(each)
    return records, not waiting and all(record["rc"] != "cut short" for record in records)


def summary(records):
    """The table, and what does not hold."""
    failed = [f"{r['recipe']}, seed {r['seed']}: ended with {r['rc']}" for r in records if r["rc"] not in (0, "cut short")]
    runs = {record["recipe"]: {} for record in records}
    for record in (record for record in records if record["final"] is not None):
        runs[record["recipe"]][record["seed"]] = record
    finals = {recipe: [run["final"] for run in seeds.values()] for recipe, seeds in runs.items()}
    spread = {recipe: max(values) - min(values) for recipe, values in finals.items() if len(values) > 1}

    def beside(recipe, other, measure, pick=mean):
        """Of a measure of both, in each seed that both have."""
        values = [measure(run, runs[other][seed]) for seed, run in runs[recipe].items() if seed in runs.get(other, {})]
        return pick(values) if values and recipe != other else None

    def cell(form, *values):
        return ", ".join("-" if value is None else format(value, form) for value in values) or "-"
    lines = ["| run | first, by seed | final, by seed | final / first | first / twin's - 1 | final - twin's | final - bf16's | "
             "between the seeds | distance from the twin's curve | peak GiB |", "|---" * 10 + "|"]
    for recipe, seeds in runs.items():
        share = max((run["final"] / run["first"] for run in seeds.values()), default=None)
        first = beside(recipe, "twin", lambda a, b: abs(a["first"] / b["first"] - 1), max)
        rates = beside(recipe, "twin", lambda a, b: max(abs(x / y - 1) for x, y in zip(a["rates"], b["rates"])), max)
        apart, from_bf16 = (beside(recipe, other, lambda a, b: a["final"] - b["final"]) for other in ("twin", "bf16"))
        curve = beside(recipe, "twin", lambda a, b: mean(abs(x - y) for x, y in zip(a["losses"], b["losses"])))
        cells = [cell(".5f", *(run["first"] for run in seeds.values())), cell(".4f", *finals[recipe]), cell(".3f", share),
                 cell(".1e", first), cell("+.4f", apart), cell("+.4f", from_bf16), cell(".4f", spread.get(recipe)),
                 cell(".4f", curve), cell(".1f", max((run["peak_gib"] for run in seeds.values()), default=None))]
        lines.append(" | ".join(["| " + recipe, *cells]) + " |")
        for what, value, bound in (("final / first", share, LEARNT), ("learning rate / twin's - 1", rates, 1e-6),
                                   ("first / twin's - 1", first, ROUNDING[records[0]["device"]]),
                                   ("final - twin's", apart, spread.get("twin"))):
            if value is not None and bound is not None and not abs(value) <= bound:
                failed.append(f"{recipe}: {what}: {value:.3g}, the bound is {bound:.3g}")
    return "\n".join(lines), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bundle", "out"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).absolute(), metavar=name.upper())
    parser.add_argument("--device", choices=ROUNDING, default="cuda")
    parser.add_argument("--preset", choices=RATES, default="qwen3-0.6b")
    parser.add_argument("--recipes", default="twin,bf16,bf16_sr,int8,float8_tensorwise,float8_rowwise", help=f"of {', '.join(RECIPES)}")
    parser.add_argument("--rate", type=float, help="the highest learning rate; by the preset")
    for name, default in dict(steps=500, batch=4, seq=512, seeds=2, jobs=6, seconds=420).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--table", action="store_true", help="the table of what OUT has, and run nothing")
    parser.add_argument("--twin", nargs=2, type=pathlib.Path, metavar=("FOLDER", "RUN"), help="how this script calls itself")
    args = parser.parse_args()
    args.rate = args.rate or RATES[args.preset]
    if args.twin:
        return twin(args, *args.twin)
    if args.table:
        records = known_records(args)
        print(*([summary(records)[0]] if records else []), sep="\n")
        return 0
    args.recipes = args.recipes.split(",")
    if unknown := [recipe for recipe in args.recipes if recipe not in RECIPES]:
        parser.error(f"no recipe {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    deadline = time.monotonic() + min(args.seconds, float(os.environ.get("GPU_DEADLINE", "inf")) - 15 - time.time())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what runs ends too
    if not (args.bundle / "lib/site-packages").exists():
        answer(args.bundle / "link-torch.sh")
    args.out.mkdir(parents=True, exist_ok=True)
    records = known_records(args, rc=0, commit=program(args), **settings(args))
    known = [(record["recipe"], record["seed"]) for record in records]
    waiting = [(recipe, seed) for recipe in args.recipes for seed in range(1, args.seeds + 1) if (recipe, seed) not in known]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # A row of the demonstration makes 29 tokens of text.
        rows = min(args.steps * args.batch * args.seq // 20 + 100, 100_000)
        answer(args.bundle / "bin/wmtp", "data", "demo", "--out", folder / "demo", "--rows", rows)
        (folder / "demo/run.yaml").touch()
        for seed in sorted({seed for _, seed in waiting}):
            prepare(args, folder / f"seed-{seed}", seed)
        records, all_ran = run_all(args, folder, records, waiting, deadline)
    table, failed = summary(records)
    print(table, *failed, *([] if all_ran else ["cut short"]), sep="\n")
    return 1 if failed else 0 if all_ran else CUT_SHORT


if __name__ == "__main__":
    sys.exit(main())
