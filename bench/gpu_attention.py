#!/usr/bin/env python3
"""Attention over documents of many lengths beside as much of it over documents of one length, both from one run of the program:

  python3 bench/gpu_attention.py BUNDLE/bin/wmtp --documents packed [--attention flash] [--device cpu --rounds 1]
One JSON line: TFLOP/s of both, forward and backward, and their ratios. `packed` has documents of 1024 to 3072 tokens on a GPU, `medium`
of 256 to 768, `short` of 24 to 71, as rows of the demonstration's corpus are. Those of one length are as many as make the sum of
squared lengths the same.
"""
import argparse
import json
import subprocess
import sys


def measured(args):
    """{op: (TFLOP/s, milliseconds)}"""
    done = subprocess.run([args.wmtp, "--json", "bench", "kernels", "--device", args.device, "--only", args.documents,
                           "--rounds", str(args.rounds)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stderr[-1500:]}\nwmtp bench kernels ended with {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["op"]: (line["tflop_s"], line["ms"]) for line in lines if line["type"] == "kernel"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wmtp")
    parser.add_argument("--documents", choices=["packed", "medium", "short"], default="packed")
    parser.add_argument("--attention", choices=["cudnn", "flash"], default="cudnn")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    found, result = measured(args), {"step_s": 0}
    # cuDNN's is named, for it stands beside LibTorch's; a CPU has one alone.
    kernel = ", cudnn" if args.attention == "cudnn" and args.device != "cpu" else ""
    for way, op in (("forward", "attention"), ("backward", "attention backward")):
        wanted = f"{op}, {args.documents}{kernel}", f"{op}, as {args.documents}, evenly"
        if missing := [name for name in wanted if name not in found]:
            sys.exit(f"wmtp bench kernels measured no '{missing[0]}' but {', '.join(found) or 'nothing'}")
        (rate, ms), (even, _) = (found[name] for name in wanted)
        result |= {f"{way}_tflop_s": rate, f"{way}_even_tflop_s": even, f"{way}_over_even": rate / even}
        result["step_s"] += ms / 1e3
    print(json.dumps(result))


if __name__ == "__main__":
    main()
