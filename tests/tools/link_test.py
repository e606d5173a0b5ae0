"""tools/link: a linker that does not end gives way to another; any other end is the command's own."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

LINK = Path(__file__).resolve().parents[2] / "tools/link"


class Link(unittest.TestCase):
    def link(self, script, limit_s):
        with tempfile.TemporaryDirectory() as folder:
            compiler = Path(folder) / "c++"
            compiler.write_text(f"#!/bin/sh\n{script}\n")
            compiler.chmod(0o755)
            return subprocess.run([LINK, compiler, "-o", "a b", "-fuse-ld=mold", "x.o"], capture_output=True, text=True,
                                  env={**os.environ, "WMTP_LINK_LIMIT_S": str(limit_s)})

    def test_a_link_that_does_not_end_is_done_by_another_linker(self):
        done = self.link('case "$*" in *mold*) sleep 60;; esac\nprintf "%s|" "$@"', limit_s=1)
        self.assertEqual((done.returncode, done.stdout), (0, "-o|a b|-fuse-ld=bfd|x.o|"))
        self.assertIn("mold has not ended within 1 s", done.stderr)

    def test_other_ends_are_the_commands_own(self):
        failed = self.link("echo undefined reference >&2; exit 3", limit_s=60)
        self.assertEqual((failed.returncode, failed.stderr), (3, "undefined reference\n"))
        self.assertEqual(self.link("exit 0", limit_s=60).returncode, 0)


if __name__ == "__main__":
    unittest.main()
