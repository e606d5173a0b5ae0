"""bench/gpu.sh measures what is missing, goes on after a cut, and says of each goal whether it is met: with a program and peers
that only answer."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Every program of a part: says how it was called, and answers with a result (or fails where it is told to).
ANSWER = """#!{python}
import json, os, sys
words = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls: calls.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
line = " ".join(words)
if words[:1] == ["version"]: print("wmtp 9.9 (abc)"); sys.exit()
if os.environ.get("BROKEN") and os.environ["BROKEN"] in line: print("no memory", file=sys.stderr); sys.exit(3)
if "gemm_bound" in line: print(json.dumps(dict(bound_tok_s=14400)))
elif "anchor_fsdp2" in line: print(json.dumps(dict(step_s=0.8, tok_s_rank=10000.0, peak_gib=100.0)))
else: print("[rank 0] " + json.dumps(dict(step_s=0.6, tok_s_rank=13500.0, peak_gib=94.0)))
"""


class GpuRecords(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = Path(self.folder.name)
        self.out, self.calls = root / "out", root / "calls"
        for name in ("bundle/bin/wmtp", "path/python3", "path/nvidia-smi"):
            program = root / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(ANSWER.format(python=sys.executable))
            program.chmod(0o755)
        (root / "bundle/lib/site-packages").mkdir(parents=True)

    def run_parts(self, *parts, seconds=None, **environment):
        """gpu_records.py as gpu.sh starts it; the programs it starts are those of this test."""
        root = Path(self.folder.name)
        cut = f"import gpu_records; gpu_records.PART_SECONDS = {seconds};" if seconds else "import gpu_records;"
        program = f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r}); {cut} sys.exit(gpu_records.main())"
        environment = os.environ | {"PATH": f"{root / 'path'}:{os.environ['PATH']}", "CALLS": str(self.calls)} | environment
        return subprocess.run([sys.executable, "-c", program, root / "bundle", self.out, *parts], capture_output=True, text=True,
                              env=environment)

    def measured(self):
        return [json.loads(line) for line in (self.out / "records.jsonl").read_text().splitlines()]

    def num_calls(self, word):
        return sum(word in line for line in self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def test_both_sides_and_the_floor_are_measured_once(self):
        done = self.run_parts("seven")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([(r["row"], r["side"]) for r in self.measured()],
                         [("6.7B light", "wmtp"), ("6.7B light", "peer"), ("6.7B light", "floor"), ("6.7B none", "wmtp")])
        self.assertEqual(self.measured()[0]["commit"], ["wmtp 9.9 (abc)"])
        self.assertIn("tok_s_rank >= 13000: 1.35e+04, met", done.stdout)
        self.assertIn("peak_gib / peer's <= 0.93: 0.94, missed by 1.1%", done.stdout)
        self.assertIn("peak_gib / 6.7B light peer's <= 1: 0.94, met", done.stdout)
        self.assertIn("| 14,400 |", done.stdout)
        self.run_parts("seven")
        self.assertEqual(len(self.measured()), 4)
        self.assertEqual(self.num_calls("anchor_fsdp2"), 1)

    def test_a_part_that_is_cut_short_goes_on(self):
        done = self.run_parts("seven", seconds=110)  # the peer's limit of time does not fit any more
        self.assertEqual(done.returncode, 75, done.stdout + done.stderr)
        self.assertNotIn(("6.7B light", "peer"), [(r["row"], r["side"]) for r in self.measured()])
        self.assertIn("peak_gib / peer's <= 0.93: not measured", done.stdout)
        self.assertEqual(self.run_parts("seven").returncode, 0)
        self.assertEqual(self.num_calls("--recompute"), 2)  # nothing of ours was measured again
        self.assertIn(("6.7B light", "peer"), [(r["row"], r["side"]) for r in self.measured()])

    def test_a_failure_is_said_and_tried_again(self):
        done = self.run_parts("seven", BROKEN="--recompute none")
        self.assertIn("6.7B none, wmtp: FAILED (3)", done.stdout)
        self.assertIn("peak_gib / 6.7B light peer's <= 1: not measured", done.stdout)
        self.assertEqual(self.measured()[-1]["error"], ["no memory"])
        self.assertIn("6.7B none, wmtp: measured", self.run_parts("seven").stdout)

    def test_unknown_parts_are_named(self):
        done = self.run_parts("sevn")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no part sevn; there are correct, seven, ", done.stderr)

    def test_the_flags_are_those_of_the_programs(self):
        """A typing error here would cost time on a GPU: every flag of a row is one that the program's help names."""
        sys.path.insert(0, str(ROOT / "bench"))
        import gpu_records
        ours = (ROOT / "src/wmtp/bench").glob("*.cpp")
        known = {"wmtp": " ".join(path.read_text() for path in ours),
                 "peer": (ROOT / "bench/anchor_fsdp2.py").read_text(), "floor": (ROOT / "bench/gemm_bound.py").read_text()}
        for row in gpu_records.ROWS:
            for side in known:
                for word in getattr(row, side).split():
                    if word.startswith("--"):
                        self.assertRegex(known[side], rf'(--)?\b{word[2:]}\b', f"{row.name}, {side}: {word}")


if __name__ == "__main__":
    unittest.main()
