#!/usr/bin/env python3
"""Runs the benchmarks and prints what each of them says.

A benchmark is a script bench/bench_<name>.py; putting one there is all it takes. Scripts find the program in $WMTP_BIN.
Without names all of them run, one after another.
"""
import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def benchmarks():
    """{name: command}"""
    scripts = sorted((ROOT / "bench").glob("bench_*.py"))
    return {script.stem[len("bench_"):]: [sys.executable, str(script)] for script in scripts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="benchmarks to run (all)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="build folder")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and end")
    args = parser.parse_args()
    build = args.build.resolve()
    known = benchmarks()
    unknown = [name for name in args.names if name not in known]
    if unknown:
        sys.exit(f"bench: no benchmark called {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    if args.list:
        print("\n".join(known))
        return 0
    failed = []
    for name in args.names or known:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        env = {**os.environ, "WMTP_BIN": str(build / "bin/wmtp")}
        if subprocess.run(known[name], cwd=ROOT, env=env).returncode:
            failed.append(name)
        print(f"-- {name}: {time.monotonic() - start:.1f} s", flush=True)
    print(f"bench: {len(args.names or known)} run, {len(failed)} failed" + (": " + " ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
