#!/usr/bin/env python3
"""Predicted steps against measured ones, over links of a chosen rate.

  python bench/bench_scaling.py [--rates 0.1,0.5,2] [--ranks 1,2,4] [--strategies FULL_SHARD,...] [--write]
Ranks run in network namespaces of their own (root, or user namespaces) and take the cores in turn. The link's constants
are fitted once, to collectives of two ranks at --reference Gbit/s; every other rate and number of ranks is a prediction
from them. What a rank computes is measured in every case, with all ranks computing and none communicating. --write puts
the table into benchmarks/scaling.md. Ends with 1 if a prediction is off by more than --bound. About 10 minutes; run it on a
quiet machine.
"""
import argparse
import os
import subprocess
import sys
from pathlib import Path

from delayed_network import DelayedNetwork
from shaped_network import ShapedNetwork, why_not
from shaped_ranks import run_ranks

SOCKETS = {"most_bytes": 256 << 10, "segment_bytes": 16 << 10}
DELAYED_SOCKETS = {"most_bytes": 2 << 20, "segment_bytes": 16 << 10}  # more is under way
ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "benchmarks/scaling.md"
BEGIN, END = "<!-- table of bench_scaling.py -->\n", "<!-- end of the table -->\n"
HEADER = """\
| ranks | strategy | link, Gbit/s | compute, ms | communication, ms | predicted, ms | measured, ms | error | link's constants |
|---|---|---|---|---|---|---|---|---|
"""


def bytes_per_s(gbit_s):
    return gbit_s * 1e9 / 8


class Link:
    """What two ranks showed at one rate, carried over to other rates and numbers of ranks."""

    def __init__(self, fitted, rate):
        self.fitted = fitted
        self.efficiency = fitted["link_mb_s"] * 1e6 / bytes_per_s(rate)

    def options(self, rate, ranks, delay_ms=0.0):
        """A core that several ranks share has less time for the bytes of each, and they cost each of them more. A delay is one of
        every hop, and of every start: Gloo sends to ranks that have said they are ready."""
        on_core = max(1, -(-ranks // len(os.sched_getaffinity(0))))
        cpu_us = self.fitted["cpu_us_per_mb"] * on_core
        mb_s = min(self.efficiency * bytes_per_s(rate) / 1e6, 1e6 / cpu_us if cpu_us else float("inf"))
        return ["--link-mb-s", mb_s, "--hop-us", self.fitted["hop_us"] + 1000 * delay_ms,
                "--start-us", self.fitted["start_us"] + 1000 * delay_ms, "--compute-us-per-mb", cpu_us]


def case_words(args, strategy):
    words = ["scaling", "--strategy", strategy, "--units", args.units, "--width", args.width, "--rows", args.rows,
             "--rounds", args.rounds, "--steps", args.steps]
    return [*words, "--group-size", 2] if strategy == "HYBRID_SHARD" else words


def row(result, rate, says):
    cells = [result["world"], result["strategy"], rate if result["world"] > 1 else "-", f"{result['compute_ms']:.0f}",
             f"{result['comm_ms']:.0f}", f"{result['predicted_ms']:.0f}", f"{result['measured_ms']:.0f}",
             f"{100 * result['error']:+.1f} %", says]
    return "| " + " | ".join(map(str, cells)) + " |\n"


def fit(args):
    with ShapedNetwork(2) as network:
        network.set_sockets(**SOCKETS)
        network.set_rate(bytes_per_s(args.reference))
        fitted = run_ranks(network, case_words(args, "FULL_SHARD"))
    link = Link(fitted, args.reference)
    says = (f"Fitted to two ranks at {args.reference} Gbit/s: {100 * link.efficiency:.1f} % of the rate, {fitted['hop_us']:.0f} us "
            f"a hop, {fitted['start_us']:.0f} us a start, {fitted['cpu_us_per_mb']:.0f} us of a processor for a megabyte.")
    return link, says


def cases_of(args, ranks):
    """(rate, strategy, delay in ms): all rates and strategies, then the lowest rate with a delay."""
    if ranks == 1:
        return [(args.rates[0], args.strategies[0], 0)]
    strategies = [name for name in args.strategies if name != "HYBRID_SHARD" or ranks == 4]
    delayed = [(min(args.rates), args.strategies[0], args.delay_ms)] if args.delay_ms else []
    return [(rate, name, 0) for rate in args.rates for name in strategies] + delayed


def run_case(args, link, ranks, rate, strategy, delay_ms):
    """A network of its own for each: what one case leaves in a queue is no part of the next."""
    with DelayedNetwork(ranks, delay_ms / 1e3) if delay_ms else ShapedNetwork(ranks) as network:
        network.set_sockets(**(DELAYED_SOCKETS if delay_ms else SOCKETS))
        network.set_rate(bytes_per_s(rate))
        return run_ranks(network, [*case_words(args, strategy), *link.options(rate, ranks, delay_ms)])


def measure(args):
    """(Markdown, largest error of a prediction)"""
    link, text = fit(args)
    print(text + "\n\n" + HEADER, end="", flush=True)
    rows, worst = [], 0.0
    for ranks in args.ranks:
        for rate, strategy, delay_ms in cases_of(args, ranks):
            result = run_case(args, link, ranks, rate, strategy, delay_ms)
            is_fit = ranks == 2 and rate == args.reference and not delay_ms
            rows.append(row(result, f"{rate}, {delay_ms} ms later" if delay_ms else rate,
                            "none" if ranks == 1 else "fitted here" if is_fit else "predicted"))
            worst = max(worst, abs(result["error"]))
            print(rows[-1], end="", flush=True)
    return text + "\n\n" + HEADER + "".join(rows), worst


def write_page(table, args):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    facts = (f"Commit {commit}, {len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[0]:.1f} at the end; "
             f"{args.units} units and the root of {args.width} x {args.width} fp32 weights, {args.rows} rows, medians of "
             f"{args.rounds} rounds of {args.steps} steps.\n\n")
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    PAGE.write_text(head + BEGIN + facts + table + END + rest.split(END)[1])


def numbers(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=numbers(int), default=[1, 2, 4])
    parser.add_argument("--rates", type=numbers(float), default=[0.1, 0.5, 2], help="Gbit/s")
    parser.add_argument("--reference", type=float, default=0.5, help="Gbit/s at which the link is fitted")
    parser.add_argument("--strategies", type=numbers(str), default=["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD"])
    parser.add_argument("--delay-ms", type=float, default=10, help="of one more case at the lowest rate, through a relay; 0: none")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--bound", type=float, default=0.15, help="of an error")
    parser.add_argument("--write", action="store_true", help="into benchmarks/scaling.md")
    args = parser.parse_args()
    if reason := why_not():
        print(f"bench_scaling: not measured, no shaped network here: {reason}")
        return 0
    table, worst = measure(args)
    if args.write:
        write_page(table, args)
    print(f"load average {os.getloadavg()[0]:.1f}; largest error {100 * worst:.1f} %, bound {100 * args.bound:.0f} %")
    return 0 if worst <= args.bound else 1


if __name__ == "__main__":
    sys.exit(main())
