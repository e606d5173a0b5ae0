#!/usr/bin/env python3
"""How much of the communication of a step hides behind its computation, over links of a chosen rate.

  python bench/bench_overlap.py [--strategies FULL_SHARD,SHARD_GRAD_OP,HYBRID_SHARD] [--ratios 0.6,1,1.8] [--rounds 3]
Ranks run in network namespaces of their own (root, or user namespaces), a core each, joined by links that are slow enough
for communication to take 0.5 to 2 times as long as the computation. `wmtp bench overlap` measures all parts in one run.
Bounds, of medians: a step with 1 or 2 units gathered ahead takes at most 1.1 x max(C, M) + first gather + last reduction,
where C is the computation alone and M the communication alone; the control, nothing ahead, at least
0.9 x (C + gathers alone). Ends with 1 if one is broken. About 20 minutes; run it on a quiet machine.
"""
import argparse
import os
import signal
import sys

from shaped_network import ShapedNetwork, why_not
from shaped_ranks import run_ranks

AHEAD = (0, 1, 2)
FIRST_RATE = 20e6  # bytes/s, of the run that finds the rates for the others
RANKS = {"HYBRID_SHARD": 4}  # in two groups; of the other strategies 2


def launch(network, strategy, args, rounds):
    """The result of one run; a rank's second core, where there is one, is for the threads of its collectives."""
    words = ["overlap", "--strategy", strategy, "--group-size", network.nodes // 2, "--units", args.units, "--width", args.width,
             "--rows", args.rows, "--rounds", rounds, "--steps", args.steps, "--prefetch", *AHEAD]
    return run_ranks(network, words, most_cores=2)


def ratio_of(result):
    """M/C"""
    return result["comm_ms"][1] / result["compute_ms"]


def judge(result):
    """(depth, milliseconds, bound, whether it holds) of each depth; the bound of depth 0 is a lower one."""
    ends = result["first_gather_ms"] + result["last_reduction_ms"]
    rows = []
    for depth, comm, step in zip(result["prefetch"], result["comm_ms"], result["step_ms"], strict=True):
        if depth == 0:
            bound = 0.9 * (result["compute_ms"] + result["gathers_ms"])
            rows.append((depth, step, bound, step >= bound))
        else:
            bound = 1.1 * max(result["compute_ms"], comm) + ends
            rows.append((depth, step, bound, step <= bound))
    return rows


def table_row(strategy, rate, result):
    cells = [strategy, f"{rate / 1e6:.1f}", f"{ratio_of(result):.2f}", f"{result['compute_ms']:.0f}",
             " / ".join(f"{ms:.0f}" for ms in result["comm_ms"]), f"{result['gathers_ms']:.0f}",
             f"{result['first_gather_ms']:.0f} + {result['last_reduction_ms']:.0f}"]
    for depth, step, bound, holds in judge(result):
        sign = (">=" if depth == 0 else "<=") if holds else "BROKEN"
        cells.append(f"{step:.0f} ({sign} {bound:.0f})")
    cells.append(" / ".join(f"{gather:.0f} + {reduce:.0f}" for gather, reduce in
                            zip(result["waited_gather_ms"], result["waited_reduce_ms"], strict=True)))
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| strategy | link, MB/s | M/C | C, ms | M, ms, at 0 / 1 / 2 ahead | gathers alone | first gather + last reduction \
| step, 0 ahead | step, 1 ahead | step, 2 ahead | waited, gathers + reductions |
|---|---|---|---|---|---|---|---|---|---|---|"""


def measure(strategy, args):
    """Prints the strategy's rows; whether all bounds hold."""
    held = True
    with ShapedNetwork(RANKS.get(strategy, 2)) as network:
        network.set_rate(FIRST_RATE)
        first = launch(network, strategy, args, rounds=1)
        rate_of_one = FIRST_RATE * ratio_of(first)  # at which M/C is 1
        for wanted in args.ratios:
            for _ in range(2):  # C is another one by now where the machine is not quiet
                rate = rate_of_one / wanted
                network.set_rate(rate)
                result = launch(network, strategy, args, args.rounds)
                rate_of_one = rate * ratio_of(result)
                if 0.5 <= ratio_of(result) <= 2:
                    break
            print(table_row(strategy, rate, result), flush=True)
            if not 0.5 <= ratio_of(result) <= 2:
                print(f"{strategy}: M/C is {ratio_of(result):.2f}, outside of 0.5 to 2")
                held = False
            held = held and all(holds for *_, holds in judge(result))
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD"])
    parser.add_argument("--ratios", type=lambda text: [float(part) for part in text.split(",")], default=[0.6, 1, 1.8],
                        help="M/C to be aimed at")
    parser.add_argument("--units", type=int, default=24)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rows", type=int, default=24576)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ranks and namespaces go too
    if reason := why_not():
        print(f"bench_overlap: not measured, no shaped network here: {reason}")
        return 0
    print(f"load average {os.getloadavg()[0]:.1f}; {args.units} units and the root, {args.width} x {args.width} weights each")
    print(HEADER, flush=True)
    held = [measure(strategy, args) for strategy in args.strategies]
    print(f"load average {os.getloadavg()[0]:.1f}; " + ("all bounds hold" if all(held) else "a bound is broken"))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
