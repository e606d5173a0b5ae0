"""bench/gpu.sh measures what is missing, goes on after a cut, and says of each goal whether it is met; tests/gpu/check.sh runs
every test of the kernels once, each part for itself; what either found is sent home however the call ends. All of it with
programs and peers that only answer."""
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import gpu_records  # noqa: E402  (bench/ is no package)

# Every program of a part: says how it was called, and answers with a result (or fails where it is told to).
ANSWER = """#!{python}
import json, os, sys, time
words = sys.argv[1:]
if words[:1] and words[0].endswith("gpu_records.py"): os.execv(sys.executable, [sys.executable, *words])
with open(os.environ["CALLS"], "a") as calls: calls.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
line = " ".join(words)
if words[:1] == ["version"]: print("wmtp 9.9 (abc)"); sys.exit()
if os.environ.get("BROKEN") and os.environ["BROKEN"] in line: print("no memory", file=sys.stderr); sys.exit(3)
if os.environ.get("SLOW") and os.environ["SLOW"] in line: print("[ RUN      ] A.Slow", flush=True); time.sleep(60)
if "--gtest_filter" in line or "bench kernels" in line: print("threads:", os.environ.get("OMP_NUM_THREADS"))
if os.environ.get("MEET") and "--gtest_filter" in line:  # others that run at the same time
    deadline = time.time() + 15
    while open(os.environ["CALLS"]).read().count("gtest_filter") < int(os.environ["MEET"]):
        if time.time() > deadline: sys.exit("nobody came")
        time.sleep(0.02)
if "--gtest_filter" in line:
    name = os.environ.get("FAULT")
    if not name or name not in line: print("[  PASSED  ] %d tests." % (name != "none")); sys.exit()
    print("a.cpp:7: Failure\\nthe first one\\n[  FAILED  ] A.First (3 ms)")
    print("\\n".join("later line %d" % i for i in range(100)) + "\\n[  FAILED  ] A.Last (3 ms)")
    sys.exit(1)
if "gemm_bound" in line: print(json.dumps(dict(bound_tok_s=14400)))
elif "anchor_fsdp2" in line: print(json.dumps(dict(step_s=0.8, tok_s_rank=10000.0, peak_gib=100.0)))
else: print("[rank 0] " + json.dumps(dict(step_s=0.6, tok_s_rank=13500.0, peak_gib=94.0)))
"""


class WithPrograms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root = Path(self.folder.name)
        self.out, self.calls = root / "out", root / "calls"
        for name in ("bundle/bin/wmtp", "bundle/bin/kernels_test", "bundle/bin/parallel_test", "bundle/bin/comm_test",
                     "bundle/bin/training_test", "bundle/link-torch.sh", "path/python3", "path/nvidia-smi", "path/sleep"):
            program = root / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(ANSWER.format(python=sys.executable))
            program.chmod(0o755)
        (root / "bundle/lib/site-packages").mkdir(parents=True)
        (root / "bundle/lib/libwmtp_cuda.so").write_text("a plugin")
        (root / "torchao/torchao").mkdir(parents=True)
        (root / "torchao/torchao/__init__.py").touch()

    def environment(self, **more):
        root = Path(self.folder.name)
        return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
            "PATH": f"{root / 'path'}:{os.environ['PATH']}", "CALLS": str(self.calls), "TORCHAO": str(root / "torchao")} | more

    def num_calls(self, word):
        return sum(word in " ".join(json.loads(line)) for line in self.calls.read_text().splitlines()) if self.calls.exists() else 0


class GpuRecords(WithPrograms):
    def run_parts(self, *parts, seconds=None, **environment):
        """gpu_records.py as gpu.sh starts it; the programs it starts are those of this test."""
        root = Path(self.folder.name)
        cut = f"import gpu_records; gpu_records.PART_SECONDS = {seconds};" if seconds else "import gpu_records;"
        program = f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r}); {cut} sys.exit(gpu_records.main())"
        return subprocess.run([sys.executable, "-c", program, root / "bundle", self.out, *parts], capture_output=True, text=True,
                              env=self.environment(**environment))

    def measured(self):
        return [json.loads(line) for line in (self.out / "records.jsonl").read_text().splitlines()]

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
        self.assertIn("| 6.7B none | failed | failed | - |", done.stdout)
        self.assertIn("peak_gib / 6.7B light peer's <= 1: not measured", done.stdout)
        self.assertEqual(self.measured()[-1]["error"], ["no memory"])
        self.assertIn("6.7B none, wmtp: measured", self.run_parts("seven").stdout)

    def test_another_program_is_measured_again_and_its_failure_is_not_hidden(self):
        self.assertEqual(self.run_parts("seven").returncode, 0)
        program = Path(self.folder.name) / "bundle/bin/wmtp"
        program.write_text(program.read_text().replace("9.9 (abc)", "9.9 (def)"))
        done = self.run_parts("seven", BROKEN="--recompute none")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual([(r["row"], r["side"]) for r in self.measured()[4:]], [("6.7B light", "wmtp"), ("6.7B none", "wmtp")])
        self.assertIn("| 6.7B none | failed | failed | - |", done.stdout)

    def test_an_unknown_side_is_named(self):
        done = self.run_parts("seven", GPU_SIDES="wmtp,pear")
        self.assertEqual(done.returncode, 2)
        self.assertIn("GPU_SIDES: no side pear", done.stderr)

    def test_what_failed_comes_after_what_was_not_tried(self):
        self.run_parts("seven", seconds=110, BROKEN="--recompute light")
        self.run_parts("seven")
        self.assertEqual([(r["row"], r["side"], bool(r["result"])) for r in self.measured()],
                         [("6.7B light", "wmtp", False), ("6.7B light", "floor", True), ("6.7B none", "wmtp", True),
                          ("6.7B light", "peer", True), ("6.7B light", "wmtp", True)])

    def test_a_peer_without_torchao_is_refused_by_name(self):
        done = self.run_parts("float8", TORCHAO=self.folder.name)
        self.assertIn("6.7B float8, peer: not measured, for no torchao can be imported", done.stdout)
        self.assertEqual(self.num_calls("anchor_fsdp2"), 0)
        self.assertIn("6.7B float8, peer: measured", self.run_parts("float8").stdout)
        self.assertEqual(self.num_calls("anchor_fsdp2"), 1)
        self.assertEqual(self.run_parts("seven", TORCHAO=self.folder.name).returncode, 0)
        self.assertEqual(self.num_calls("anchor_fsdp2"), 2)  # that peer needs none

    def test_a_ratio_without_a_bound_is_told(self):
        self.assertIn("tok_s_rank / 0.6B packed, flash's: 1;", self.run_parts("attention").stdout)
        self.assertEqual(self.num_calls("gpu_train.py"), 3)

    def test_attention_is_measured_beside_even_documents(self):
        """Ratios of the bench's own kernels, here of a CPU's; a name that the program does not give is an error."""
        script = [sys.executable, str(ROOT / "bench/gpu_attention.py")]
        program = Path(self.folder.name) / "wmtp"
        rates = {", packed": (3, 2), ", packed, cudnn": (8, 6), ", as packed, evenly": (10, 5)}
        lines = [json.dumps({"type": "kernel", "op": f"attention{way}{over}", "tflop_s": rate[index], "ms": 10})
                 for over, rate in rates.items() for index, way in enumerate(("", " backward"))]
        program.write_text("#!/bin/sh\ncat << END\n" + "\n".join(lines) + "\nEND\n")
        program.chmod(0o755)

        def ratios(*flags):
            found = json.loads(subprocess.run([*script, program, *flags], check=True, capture_output=True, text=True).stdout)
            return found["forward_over_even"], found["backward_over_even"], found["step_s"]

        self.assertEqual(ratios(), (0.8, 1.2, 0.02))
        self.assertEqual(ratios("--attention", "flash"), (0.3, 0.4, 0.02))
        self.assertEqual(ratios("--device", "cpu"), (0.3, 0.4, 0.02))
        done = subprocess.run([*script, program, "--documents", "short"], capture_output=True, text=True)
        self.assertIn("measured no 'attention, short, cudnn' but attention, packed", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_what_takes_too_long_ends_with_all_it_started(self):
        root = Path(self.folder.name)
        script = f"(sleep 2; touch {root}/survivor) & echo dying >&2; sleep 60"
        started = time.monotonic()
        self.assertEqual(gpu_records.run_bounded(["sh", "-c", script], 1), ("over 1 s", "", "dying\n"))
        self.assertLess(time.monotonic() - started, 20)
        time.sleep(2)
        self.assertFalse((root / "survivor").exists())

    def test_a_part_alone_ends_within_a_call(self):
        for part in {row.part for row in gpu_records.ROWS}:
            seconds = sum(limit for row in gpu_records.ROWS if row.part == part
                          for _, limit in gpu_records.commands(row, "").values())
            self.assertLess(seconds, 540 - 15, part)
            self.assertLessEqual(seconds, gpu_records.PART_SECONDS, part)

    def test_a_goal_names_a_row_that_there_is(self):
        names = {row.name for row in gpu_records.ROWS}
        self.assertEqual(len(names), len(gpu_records.ROWS))
        sides = {"", "peer", "floor"} | names | {f"{row.name} {side}" for row in gpu_records.ROWS for side in ("peer", "floor")
                                                if getattr(row, side)}
        for row in gpu_records.ROWS:
            for goal in row.goals:
                self.assertIn(goal.other, sides, row.name)

    def test_unknown_parts_are_named(self):
        done = self.run_parts("sevn")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no part sevn; there are correct, seven, ", done.stderr)

    def test_the_flags_are_those_of_the_programs(self):
        """A typing error here would cost time on a GPU: every flag of a row is one that the program's help names."""
        ours = (ROOT / "src/wmtp/bench").glob("*.cpp")
        known = {"train": (ROOT / "bench/gpu_train.py").read_text(), "attention": (ROOT / "bench/gpu_attention.py").read_text(),
                 "wmtp": " ".join(path.read_text() for path in ours),
                 "peer": (ROOT / "bench/anchor_fsdp2.py").read_text(), "floor": (ROOT / "bench/gemm_bound.py").read_text()}
        for row in gpu_records.ROWS:
            for side in known:
                for word in getattr(row, side).split():
                    if word.startswith("--"):
                        self.assertRegex(known[side], rf'(--)?\b{word[2:]}\b', f"{row.name}, {side}: {word}")


def tests_of(folder):
    """Suite.Name of every test in the sources, with `x` for a parameter."""
    text = "\n".join(path.read_text() for path in sorted(folder.glob("*.cpp")))
    prefixes = {}
    for prefix, suite in re.findall(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text, re.M):
        prefixes.setdefault(suite, []).append(prefix)
    for kind, suite, name in re.findall(r"^(TEST|TEST_F|TEST_P)\(\s*(\w+),\s*(\w+)\)", text, re.M):
        if kind == "TEST_P":
            yield from (f"{prefix}/{suite}.{name}/x" for prefix in prefixes[suite])
        else:
            yield f"{suite}.{name}"


def matches(filter_, name):
    """As gtest does: patterns, and after a `-` those that are left out."""
    wanted, _, left_out = filter_.partition("-")

    def some(patterns):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(":"))
    return some(wanted or "*") and not some(left_out)


class GpuChecks(WithPrograms):
    CHECK = ROOT / "tests/gpu/check.sh"

    def check(self, *words, **environment):
        root = Path(self.folder.name)
        return subprocess.run([self.CHECK, root / "bundle", self.out, *words], capture_output=True, text=True,
                              env=self.environment(**environment))

    def parts(self):
        """name -> (limit, command)"""
        done = subprocess.run([self.CHECK, "--list"], capture_output=True, text=True, check=True)
        return {line.split()[0]: (int(line.split()[1]), line.split(maxsplit=2)[2]) for line in done.stdout.splitlines()}

    def filters(self, program):
        found = {name: command.split("--gtest_filter=")[1] for name, (_, command) in self.parts().items()
                 if f"bin/{program} --gtest_filter=" in command}
        if program == "kernels_test":
            families = re.search(r"for family in (.*); do", (ROOT / "tests/gpu/shapes.sh").read_text())[1].split()
            self.assertEqual(sorted(families), sorted(re.findall(r'\{"(\w+)", \w+_shapes',
                                                                 (ROOT / "tests/kernels/shapes_test.cpp").read_text())))
            found["shapes"] = "All/ShapesOnGpu.*"
        return found

    def test_every_test_of_the_kernels_is_in_one_part(self):
        filters, names = self.filters("kernels_test"), list(tests_of(ROOT / "tests/kernels"))
        self.assertGreater(len(names), 100)
        for name in names:
            self.assertEqual(len([part for part, filter_ in filters.items() if matches(filter_, name)]), 1, name)
        for part, filter_ in filters.items():
            self.assertTrue([name for name in names if matches(filter_, name)], part)
            for pattern in re.split("[:-]", filter_):  # a name that no test has any more
                self.assertTrue(not pattern or fnmatch.filter(names, pattern), f"{part}: {pattern}")

    def test_every_test_of_shards_and_nccl_that_needs_a_gpu_is_in_a_part(self):
        for program, folder in (("parallel_test", "parallel"), ("comm_test", "comm"), ("training_test", "training")):
            names = [name for name in tests_of(ROOT / "tests" / folder) if "OnGpu." in name]
            self.assertTrue(names)
            for name in names:
                self.assertTrue(any(matches(filter_, name) for filter_ in self.filters(program).values()), name)

    def test_limits_of_kernels_are_short(self):
        for part in self.filters("kernels_test"):
            self.assertLessEqual(self.parts()[part][0], 170, part)

    def test_what_passed_is_not_run_again_and_what_failed_comes_last(self):
        done = self.check("k_nf4", "k_amax", "k_packed", FAULT="Nf4OnGpu")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAILED   k_nf4 \(exit 1, \d+ s\)")
        self.assertRegex(done.stdout, r"ok       k_amax \(\d+ s, 1 passed\)")
        self.assertIn("NOT RUN  shapes", done.stdout)
        self.calls.unlink()
        done = self.check()
        order = [line for line in self.calls.read_text().splitlines() if "gtest_filter" in line]
        self.assertEqual([i for i, line in enumerate(order) if "=Nf4OnGpu.*" in line], [len(order) - 1])
        self.assertFalse([line for line in order if "=ProducedAmaxOnGpu.*" in line])
        self.assertIn("ok       k_nf4", done.stdout)
        self.assertEqual(done.returncode, 1)  # programs that only answer do not train

    def test_the_first_failure_is_shown_and_looked_at(self):
        sanitizer = Path(self.folder.name) / "path/compute-sanitizer"
        sanitizer.write_text(f"#!{sys.executable}\nimport sys\nprint('========= Invalid __global__ read', sys.argv)\nsys.exit(9)\n")
        sanitizer.chmod(0o755)
        done = self.check("k_nf4", "k_amax", FAULT="Nf4OnGpu")
        shown = done.stdout.split("FAILED   k_nf4")[1]
        self.assertIn("a.cpp:7: Failure\n  | the first one", shown)
        self.assertIn("later line 15", shown)
        self.assertNotIn("later line 50", shown)
        self.assertIn("A.Last", shown)
        self.assertIn("later line 50", (self.out / "k_nf4.log").read_text())
        self.assertIn("compute-sanitizer: k_nf4, A.First: exit 9", done.stdout)
        self.assertIn("--gtest_filter=A.First", (self.out / "k_nf4.sanitizer.log").read_text())
        self.assertFalse((self.out / "k_amax.sanitizer.log").exists())

    def test_a_part_in_which_nothing_ran_has_failed(self):
        done = self.check("k_packed", FAULT="none")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("FAILED   k_packed (exit none", done.stdout)

    def test_another_bundle_has_passed_nothing(self):
        self.check("k_nf4")
        (Path(self.folder.name) / "bundle/lib/libwmtp_cuda.so").write_text("another")
        self.assertIn("NOT RUN  k_nf4", self.check("k_amax").stdout)

    def test_nothing_begins_that_would_not_end(self):
        done = self.check("k_nf4", "k_amax", GPU_DEADLINE=str(int(time.time()) + 60))
        self.assertEqual(done.returncode, 75, done.stdout)
        self.assertIn("NOT RUN  k_nf4 (no time left)", done.stdout)
        self.assertEqual(self.num_calls("gtest_filter"), 0)

    def test_what_the_call_cuts_short_has_not_failed(self):
        for jobs in "12":
            done = self.check("parity", SLOW="parity", GPU_DEADLINE=str(int(time.time()) + 19), GPU_LEAST="2", GPU_JOBS=jobs)
            self.assertEqual(done.returncode, 75, done.stdout)
            self.assertRegex(done.stdout, r"NOT RUN  parity \(cut short after \d+ s\)")

    def test_parts_run_at_once_and_what_measures_runs_alone(self):
        done = self.check("bench_kernels_bf16", "k_nf4", "k_amax", "k_packed", GPU_JOBS="3", MEET="3", FAULT="ProducedAmaxOnGpu")
        calls = [line for line in self.calls.read_text().splitlines() if "gtest_filter" in line or "kernels" in line]
        self.assertIn("bench", calls[-1])  # though it is named first
        self.assertIn("ok       bench_kernels_bf16", done.stdout)
        self.assertRegex(done.stdout, r"FAILED   k_amax \(exit 1, \d+ s\)\n  \| threads: \d+\n  \| a.cpp:7: Failure\n")
        threads = str(max(os.cpu_count() // 3, 1))
        self.assertIn(f"threads: {threads}\n", (self.out / "k_nf4.log").read_text())
        self.assertIn("threads: None\n", (self.out / "bench_kernels_bf16.log").read_text())
        self.assertFalse(list(self.out.glob("*.said")))
        self.assertIn("nobody came", self.check("k_nf4", "k_packed", MEET="9").stdout)  # the control: one at a time

    def test_all_that_run_at_once_end_with_the_call(self):
        root = Path(self.folder.name)
        process = subprocess.Popen([self.CHECK, root / "bundle", self.out, "k_nf4", "k_amax"], stdout=subprocess.DEVNULL,
                                   env=self.environment(GPU_JOBS="2", SLOW="OnGpu"))
        while self.num_calls("OnGpu") < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=30), 143)
        self.assertFalse([text for text in commands_running() if f"{self.folder.name}/bundle/bin" in text])

    def test_no_part_at_a_time_is_refused(self):
        done = self.check("k_nf4", GPU_JOBS="0")
        self.assertEqual((done.returncode, self.num_calls("gtest_filter")), (2, 0))
        self.assertIn("GPU_JOBS is 0", done.stderr)

    def test_the_sanitizer_can_be_turned_off(self):
        sanitizer = Path(self.folder.name) / "path/compute-sanitizer"
        sanitizer.write_text("#!/bin/sh\necho looked\n")
        sanitizer.chmod(0o755)
        self.assertNotIn("compute-sanitizer", self.check("k_nf4", FAULT="Nf4OnGpu", GPU_SANITIZE="0").stdout)
        done = self.check("k_nf4", "k_amax", FAULT="OnGpu", GPU_JOBS="2")
        for name in ("k_nf4", "k_amax"):
            self.assertIn(f"compute-sanitizer: {name}, A.First: exit 0", done.stdout)


def commands_running():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it has ended meanwhile


class GpuCalls(WithPrograms):
    def start(self, *words, **environment):
        root = Path(self.folder.name)
        words = [root / "bundle" if word == "BUNDLE" else self.out if word == "OUT" else word for word in words]
        return subprocess.Popen([ROOT / "bench/gpu.sh", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.environment(WORK=str(root / "work"), **environment))

    def call(self, *words, **environment):
        process = self.start(*words, **environment)
        text, _ = process.communicate(timeout=200)
        return process.returncode, text

    def sent(self):
        with tarfile.open(self.out / "results.tgz") as packed:
            return {name.removeprefix("./") for name in packed.getnames()}

    def test_a_call_sends_three_files(self):
        code, text = self.call("BUNDLE", "OUT", "correct=k_nf4,k_amax", "nf4", FAULT="Nf4OnGpu")
        self.assertEqual(code, 1, text)
        self.assertEqual({path.name for path in self.out.iterdir()}, {"results.tgz", "records.jsonl", "summary.txt"})
        self.assertLessEqual({"records.jsonl", "correct/k_nf4.log", "correct/k_nf4.failed", "correct/k_amax.passed"}, self.sent())
        self.assertEqual(len((self.out / "records.jsonl").read_text().splitlines()), 2)
        summary = (self.out / "summary.txt").read_text()
        self.assertIn("FAILED   k_nf4", summary)
        self.assertIn("| 6.7B LoRA 64 on NF4 | 13,500 |", summary)

    def test_a_machine_that_forgot_goes_on_from_what_was_sent(self):
        root = Path(self.folder.name)
        self.call("BUNDLE", "OUT", "correct=k_nf4", "nf4")
        (self.out / "results.tgz").rename(root / "carried.tgz")
        subprocess.run(["rm", "-r", root / "work", self.out, self.calls], check=True)
        code, text = self.call("--from", str(root / "carried.tgz"), "BUNDLE", "OUT", "correct=k_amax", "nf4")
        self.assertIn("ok       k_nf4", text)
        self.assertEqual((code, self.num_calls("Nf4OnGpu.*"), self.num_calls("--quantize")), (75, 0, 0), text)
        subprocess.run(["rm", "-r", root / "work"], check=True)  # the file may lie in the folder instead
        (root / "work").mkdir()
        (self.out / "results.tgz").rename(root / "work/results.tgz")
        self.assertIn("ok       k_amax", self.call("BUNDLE", "OUT", "correct=k_nf4")[1])
        (root / "carried.tgz").write_text("cut")  # a machine that is still warm knows more than the file
        self.assertIn("ok       k_amax", self.call("--from", str(root / "carried.tgz"), "BUNDLE", "OUT", "correct=k_nf4")[1])

    def test_curves_are_a_part_that_comes_last(self):
        code, text = self.call("BUNDLE", "OUT", "curves", "nf4")
        self.assertEqual(code, 0, text)
        calls = [json.loads(line) for line in self.calls.read_text().splitlines()]
        curves = [i for i, words in enumerate(calls) if words[1].endswith("gpu_curves.py") and words[-1] != "--table"]
        rows = [i for i, words in enumerate(calls) if "bench" in words]
        self.assertEqual(len(curves), 1)
        self.assertGreater(curves[0], max(rows))
        self.assertEqual(self.call("BUNDLE", "OUT", "curves", BROKEN="gpu_curves.py")[0], 1)

    def test_a_damaged_file_and_none_are_refused(self):
        root = Path(self.folder.name)
        (root / "carried.tgz").write_text("cut")
        self.assertEqual(self.call("--from", str(root / "carried.tgz"), "BUNDLE", "OUT", "nf4")[0], 2)
        self.assertEqual(self.call("--from", str(root / "none.tgz"), "BUNDLE", "OUT", "nf4")[0], 2)
        self.assertEqual(self.num_calls("bench"), 0)

    def test_a_call_that_is_told_to_end_sends_what_it_has(self):
        for words, slow in ((["correct=k_nf4,k_amax"], "ProducedAmaxOnGpu"), (["nf4"], "--quantize nf4")):
            process = self.start("BUNDLE", "OUT", *words, SLOW=slow)
            while not self.num_calls(slow):
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            text, _ = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 143, text)
            self.assertIn("correct/k_nf4.passed", self.sent())
            self.assertIn("NOT RUN  k_amax", (self.out / "summary.txt").read_text())
            self.assertFalse([text for text in commands_running() if f"{self.folder.name}/bundle/bin" in text], words)


if __name__ == "__main__":
    unittest.main()
