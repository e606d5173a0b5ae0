"""The table of failpoints against the sources: each point is passed, does there what the table says it can do, and is
reached by a test; and nothing passes a point that is not in the table."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/wmtp/core/failpoint_points.cpp"
SECTION_FILE = ROOT / "src/wmtp/data/sections/section_file.cpp"  # puts the names of two points together

# It takes its points from the table and asserts for each that its faults were logged.
MATRIX = ("tests/checkpoint/failpoint_matrix_test.cpp", "EveryPointActionAndRank")
# A test that fails when the point is not reached: it asserts the log's line, or what only the fault can cause.
KILLED_IN_A_STEP = ("tests/integration/test_resume.py", "test_a_rank_killed_in_a_step")
KILLED_IN_AN_UPLOAD = ("tests/integration/test_s3_uploads.py", "test_killed_at_any_point_an_upload_goes_on")
NO_CACHE = ("tests/data/token_cache_test.cpp", "FailedWritesLeaveNothingBehind")
ODD_RANK = ("tests/integration/test_cluster_doctor.py", "test_another_version_and_a_skewed_clock_are_named")
REACHED = {
    "cache.rename.before": NO_CACHE,
    "cache.write.half": NO_CACHE,
    "comm.agree.post": ("tests/comm/agreement_test.cpp", "SkippedAgreementSeesNothing"),
    "comm.collective.before": ("tests/comm/watchdog_multirank_test.cpp", "SkippedCollectiveIsNamed"),
    "comm.hello": ("tests/comm/rendezvous_test.cpp", "SkippedHelloSeesNothing"),
    "data.batch.made": ("tests/integration/test_watching.py", "test_a_rank_whose_data_comes_late_is_named"),
    "doctor.clock": ODD_RANK,
    "doctor.versions": ODD_RANK,
    "export.rename.before": ("tests/weights/fresh_folder_test.cpp", "AFailedRenameLeavesTheOldFolder"),
    "index.rename.before": NO_CACHE,
    "index.write.half": NO_CACHE,
    "load.box.read": MATRIX,
    "load.manifest.read": MATRIX,
    "load.quarantine.rename": MATRIX,
    "load.scan.begin": MATRIX,
    "lock.break": ("tests/checkpoint/run_lock_test.cpp", "OfManyForcedStartsOneWins"),
    "lock.write": ("tests/parity/test_checkpoint_files.py", "test_prune_where_it_is_needed"),
    "retain.files.half": MATRIX,
    "retain.manifest.gone": MATRIX,
    "save.dirs.fsync": MATRIX,
    "save.manifest.fsync": MATRIX,
    "save.manifest.half": MATRIX,
    "save.parent.fsync": MATRIX,
    "save.pointer.rename": MATRIX,
    "save.rename.after": MATRIX,
    "save.rename.before": MATRIX,
    "save.shard.closed": MATRIX,
    "save.shard.fsync": MATRIX,
    "save.shard.half": MATRIX,
    "save.shard.open": MATRIX,
    "save.shard.written": MATRIX,
    "save.stage.begin": MATRIX,
    "save.stage.memory": ("tests/integration/test_run_ends.py", "test_saves_wait_where_memory_is_short"),
    "save.state.half": MATRIX,
    "save.tmpdir.made": MATRIX,
    "save.vote.post": MATRIX,
    "save.vote.read": MATRIX,
    "step.apply.before": KILLED_IN_A_STEP,
    "step.backward.mid": KILLED_IN_A_STEP,
    "step.begin": KILLED_IN_A_STEP,
    "step.forward.mid": KILLED_IN_A_STEP,
    "step.grad_norm": KILLED_IN_A_STEP,
    "step.graph": ("tests/integration/test_cuda_graphs.py", "test_replayed_steps_have_the_bits_of_plain_ones"),
    "step.graph.record": ("tests/integration/test_cuda_graphs.py", "test_what_cannot_be_recorded_runs_plainly"),
    "step.loss": KILLED_IN_A_STEP,
    "step.loss.spike": ("tests/integration/test_watching.py", "test_a_spike_is_told_and_a_resumed_run_tells_it_too"),
    "step.reduce.before": KILLED_IN_A_STEP,
    "step.report": KILLED_IN_A_STEP,
    "step.weights": ("tests/integration/test_resume.py", "test_ranks_whose_weights_drift_apart"),
    "stop.agreed": ("tests/integration/test_resume.py", "test_killed_when_the_stop_was_agreed"),
    "upload.complete.sent": KILLED_IN_AN_UPLOAD,
    "upload.head.done": KILLED_IN_AN_UPLOAD,
    "upload.manifest.put": KILLED_IN_AN_UPLOAD,
    "upload.part.sent": KILLED_IN_AN_UPLOAD,
    "upload.queue.half": KILLED_IN_AN_UPLOAD,
}

IN_PASS = {"kill", "stop", "sleep"}  # what pass() does itself, wherever it stands
ERRORS = {"eio", "enospc"}


def code_of(path):
    """The text without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.S)


def table():
    """Point -> the actions it can do."""
    text, sets = code_of(TABLE), {}
    for name, body in re.findall(r"constexpr auto (k\w+) =(.*?);", text, re.S):
        sets[name] = set(re.findall(r"Action::(\w+)", body)).union(*(sets[k] for k in re.findall(r"\bk[A-Z]\w*", body)))
    return {name: sets[kind] for name, kind in re.findall(r'Point\{"([^"]+)", (\w+)\}', text)}


def named_actions(text):
    """What a piece of code does with the action that pass() gave it."""
    found = set(re.findall(r"[!=]= failpoint::Action::(\w+)", text))
    return found | (ERRORS if "error_number(" in text or "fail_if_asked(" in text else set())


def handled_at(code, begin, end):
    """The actions that the call of pass() at code[begin:end] heeds."""
    before = code[max(code.rfind(mark, 0, begin) for mark in ";{}") + 1:begin]
    after = code[end:code.find(";", end)]
    if re.search(r"\bguarded\($", before.rstrip()):
        return ERRORS | {"skip"}
    if "return" in before:  # handed to write_text(): the point of a half, or of an fsync
        return ERRORS | {"skip"}
    if re.search(r"\baction = $", before):  # what the function does with it
        return named_actions(code[end:code.find("\n}", end)])
    return named_actions(before + after)


def passages():
    """(point, actions heeded, file) of every passage in the sources."""
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".cpp", ".h", ".cu") or path.name.startswith("failpoint"):
            continue
        code = code_of(path)
        for call in re.finditer(r"failpoint::pass\(\s*(.)", code):
            name = re.match(r'"([^"]+)"\s*\)', code[call.end() - 1:])
            if name:
                yield name[1], handled_at(code, call.start(), call.end() + len(name[0])), path
            elif path != SECTION_FILE:
                raise AssertionError(f"{path}: a passage without a plain name: {code[call.start():call.start() + 60]}")
    yield from section_file_passages()


def section_file_passages():
    code = code_of(SECTION_FILE)
    kinds = [kind for path in sorted((ROOT / "src/wmtp/data").rglob("*.cpp"))
             for kind in re.findall(r'\.failpoints = "(\w+)"', code_of(path))]
    for call in re.finditer(r'pass_failpoint\(content, path, "([^"]+)"\)', code):
        for kind in kinds:  # pass_failpoint() throws the errors itself
            yield f"{kind}.{call[1]}", ERRORS | handled_at(code, call.start(), call.end()), SECTION_FILE


def body_of(path, test):
    """The source of one test: from its decorators, or its TEST line, to the next one."""
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        blocks = re.split(r"\n\n\n", text)
        return next((block for block in blocks if f"def {test}(" in block), None)
    found = re.search(rf"^TEST(_[FP])?\(\w+, {test}\).*?(?=^TEST|\Z)", text, re.M | re.S)
    return found and found[0]


class Failpoints(unittest.TestCase):
    def test_every_point_is_passed_and_every_passage_is_known(self):
        passed = {name for name, _, _ in passages()}
        self.assertEqual(sorted(set(table()) - passed), [], "in the table, but nothing passes them")
        self.assertEqual(sorted(passed - set(table())), [], "passed, but not in the table")

    def test_a_point_can_do_what_the_table_says_and_no_more(self):
        points = table()
        for name, heeded, path in passages():
            with self.subTest(name, path=path.name):
                # Half of the bytes, then an error: of a write, where errors are heeded.
                short = {"short_write"} if name.endswith(".half") and not name.startswith("retain.") else set()
                self.assertEqual(points.get(name), IN_PASS | heeded | short)

    def test_every_point_is_reached_by_a_test(self):
        self.assertEqual(sorted(table()), sorted(REACHED), "each point needs a test that reaches it, entered above")
        for name, (path, test) in REACHED.items():
            with self.subTest(name):
                body = body_of(path, test)
                self.assertIsNotNone(body, f"{path} has no test {test}")
                if (path, test) == MATRIX:
                    self.assertTrue(name.startswith(("save.", "load.", "retain.")), "the matrix does not walk it")
                    self.assertIn("all_faults()", body)
                else:
                    self.assertRegex(body, re.escape(name) + r'[":=]')


if __name__ == "__main__":
    unittest.main()
