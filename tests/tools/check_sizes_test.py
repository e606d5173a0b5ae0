"""tools/check_sizes accepts a sound tree and names files and folders above the limits."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools/check_sizes"


class CheckSizes(unittest.TestCase):
    def check(self, *args, **lines):
        with tempfile.TemporaryDirectory() as root:
            for name, num_lines in {"core/error.h": 120, "core/error.cpp": 300, **lines.get("files", {})}.items():
                path = Path(root) / "src/wmtp" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(num_lines if isinstance(num_lines, str) else "//\n" * num_lines)
            return subprocess.run([sys.executable, CHECK, "--root", root, *args], capture_output=True, text=True)

    def assert_breach(self, files, what):
        done = self.check(files=files)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(what, done.stdout)
        self.assertIn("1 breaches", done.stdout)

    def test_sound_tree(self):
        self.assertEqual(self.check().returncode, 0)

    def test_header_and_source(self):
        self.assert_breach({"core/long.h": 121}, "src/wmtp/core/long.h: 121 lines, the limit is 120")
        self.assert_breach({"core/long.cpp": 301}, "src/wmtp/core/long.cpp: 301 lines, the limit is 300")

    def test_tables_may_be_longer_but_only_while_they_are(self):
        self.assertEqual(self.check(files={"tokenizer/text/unicode_tables.cpp": 2000}).returncode, 0)
        self.assert_breach({"tokenizer/text/unicode_tables.cpp": 20}, "needs no exception")

    def test_folder(self):
        self.assert_breach({f"data/{number}.h": 1 for number in range(41)}, "src/wmtp/data: 41 files")

    def test_long_functions_are_told_and_no_breach(self):
        files = {"core/walk.cpp": "namespace wmtp {\nint walk(int a) {\n" + "  a += 1;\n" * 40 + "  return a;\n}\n}\n"}
        done = self.check("--functions", files=files)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("src/wmtp/core/walk.cpp:2 walk", done.stdout)


if __name__ == "__main__":
    unittest.main()
