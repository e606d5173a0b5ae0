"""tools/isa_matrix over programs that only pretend: what a row counts as, and the exit code."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/isa_matrix"
# Only ATen's variable and our own change a hash.
PROBE = """#!/bin/sh
[ "$WMTP_TEST_SIMD" != avx2 ] || [ WIDEST != baseline ] || exit 1
printf '{"aten": "%s", "own": "%s", "own_widest": "WIDEST", "gemm": "0", "softmax": "%s", "kernels": "%s"}' \\
  "${ATEN_CPU_CAPABILITY:-avx2}" "${WMTP_TEST_SIMD:-WIDEST}" "${ATEN_CPU_CAPABILITY:-avx2}" "${WMTP_TEST_SIMD:-WIDEST}"
"""


class IsaMatrixTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = Path(self.folder.name)
        self.program("wmtp_isa_probe", PROBE.replace("WIDEST", "avx2"))

    def program(self, name, text):
        path = self.build / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_tool(self, *words):
        done = subprocess.run([sys.executable, TOOL, self.build, *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def row(self, output, name):
        return [line for line in output.splitlines() if line.split()[:1] == [name]][-1]

    def test_rows_pass_fail_or_have_no_effect(self):
        self.program("optim_test", '#!/bin/sh\n[ "$WMTP_TEST_SIMD" != baseline ]\n')
        code, output = self.run_tool("--suites", "optim")
        self.assertEqual(code, 1, output)
        self.assertRegex(self.row(output, "native"), r" 2/2 .* passed$")
        self.assertRegex(self.row(output, "lowest"), r" 0/2 .* FAILED: optim x 1, optim x 4$")
        self.assertRegex(self.row(output, "aten-default"), r" 2/2 .* passed$")
        self.assertRegex(self.row(output, "mkl-sse4_2"), r" 2/2 .* no effect$")
        code, output = self.run_tool("--suites", "optim", "--rows", "aten-default,mkl-avx2", "--skip-no-effect")
        self.assertEqual(code, 0, output)
        self.assertRegex(self.row(output, "mkl-avx2"), r" 0/0 .* no effect, not run$")

    def test_variables_of_the_caller_are_not_the_rows(self):
        self.program("optim_test", '#!/bin/sh\n[ -z "$MKL_CBWR$ATEN_CPU_CAPABILITY" ]\n')
        done = subprocess.run([sys.executable, TOOL, self.build, "--suites", "optim", "--rows", "native"],
                              env={"PATH": "/usr/bin:/bin", "MKL_CBWR": "AVX", "ATEN_CPU_CAPABILITY": "default"})
        self.assertEqual(done.returncode, 0)

    def test_a_level_that_the_processor_lacks_is_said(self):
        self.program("wmtp_isa_probe", PROBE.replace("WIDEST", "baseline"))
        self.program("optim_test", "#!/bin/sh\n")
        code, output = self.run_tool("--suites", "optim", "--rows", "avx2")
        self.assertEqual(code, 0, output)
        self.assertRegex(self.row(output, "avx2"), r" 0/0 .* not on this CPU$")

    def test_what_is_not_there_is_named_and_nothing_is_no_pass(self):
        code, output = self.run_tool("--suites", "optim,kernels", "--rows", "native")
        self.assertEqual(code, 1)
        self.assertIn("left out: kernels (no kernels_test)", output)
        self.assertIn("no row none", self.run_tool("--rows", "none")[1])

    def test_tolerances_are_gathered_over_rows(self):
        self.program("optim_test", '#!/bin/sh\nerror=1; [ -z "$ATEN_CPU_CAPABILITY" ] || error=3\n'
                     'echo "a/b.cpp:7 $error 4" >> "$WMTP_TOLERANCE_LOG"\n')
        table = self.build / "table.md"
        code, output = self.run_tool("--suites", "optim", "--rows", "native,aten-default", "--tolerances", str(table))
        self.assertEqual(code, 0, output)
        self.assertIn("| a/b.cpp:7 | 4 | 3 | 0.75 | 0.25 | 0.75 |", table.read_text())


if __name__ == "__main__":
    unittest.main()
