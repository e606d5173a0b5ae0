"""tools/setup in a private checkout and cache, with tiny wheels and no network: whole or absent, never twice."""
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "tools/setup"
MINOR = sys.version_info[1] if sys.version_info[1] in (11, 12, 13) else 11


def make_wheel(folder, name, version, tag, files):
    """A wheel that pip accepts; returns its requirement line with the hash."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@unittest.skipIf(importlib.util.find_spec("torch"), "the active Python brings torch: nothing to set up")
class Setup(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.cache, self.index = self.root / "cache", self.root / "index"
        for folder in ("tools", "tests/parity", "tests/integration", "index"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(SETUP, self.root / "tools/setup")
        torch = {"torch/version.py": "__version__ = '2.11.0+test'\n", "torch/lib/libtorch_cpu.so": "x" * 1000,
                 "torch/include/ATen.h": "", "torch/nn/big.py": "not needed by a build"}
        runtime = {"nvidia/cu13/lib/libcudart.so.13": "y" * 10}
        lines = [make_wheel(self.index, "torch", "2.11.0", f"cp3{MINOR}-cp3{MINOR}-manylinux_2_28_x86_64", torch),
                 make_wheel(self.index, "nvidia_cuda_runtime", "13.0", "py3-none-manylinux_2_17_x86_64", runtime)]
        make_wheel(self.index, "tiny", "1.0", "py3-none-any", {"tiny.py": "answer = 42\n"})
        make_wheel(self.index, "small", "1.0", "py3-none-any", {"small.py": "import tiny\nanswer = tiny.answer + 1\n"})
        self.pin(lines)
        (self.root / "tests/integration/extra_requirements.txt").write_text("# a reason\nsmall==1.0\n")
        (self.root / "tests/parity/requirements.txt").write_text(
            "torch==2.11.0\nnvidia_cuda_runtime==13.0\ntiny==1.0\n")

    def pin(self, lines, plugin=()):
        self.pinned = lines
        (self.root / "tools/libtorch.txt").write_text("\n".join(["# [cpu]", *lines, "# [plugin]", *plugin]) + "\n")

    def start(self, *args):
        env = {**os.environ, "WMTP_CACHE": str(self.cache), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index),
               "PATH": f"{self.root}:{os.environ['PATH']}"}
        return subprocess.Popen([sys.executable, self.root / "tools/setup", "--no-packages", *args], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def run_setup(self, *args, code=0):
        process = self.start(*args)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, out + err)
        return out.strip(), err

    def test_installs_what_a_build_needs_and_does_nothing_twice(self):
        self.run_setup("--print-torch-dir", code=1)
        _, first = self.run_setup()
        torch = Path(self.run_setup("--print-torch-dir")[0])
        self.assertEqual((torch / "lib/libtorch_cpu.so").read_text(), "x" * 1000)
        self.assertTrue((torch.parent / "nvidia/cu13/lib/libcudart.so.13").exists())
        self.assertFalse((torch / "nn").exists())
        self.assertIn("fetching torch", first)
        shutil.rmtree(self.index)
        self.assertIn("0.0 MB fetched", self.run_setup()[1])

    def test_headers_for_the_plugin_come_where_nvcc_is_and_nothing_fails_for_want_of_them(self):
        nvcc = self.root / "nvcc"
        nvcc.write_text("#!/bin/sh\n")
        nvcc.chmod(0o755)
        files = {"include/cudnn_frontend.h": "", "cudnn/big.so": "not needed by a build"}
        line = make_wheel(self.index, "nvidia_cudnn_frontend", "1.32.0", f"cp3{MINOR}-cp3{MINOR}-manylinux_2_28_x86_64", files)
        wheel = next(self.index.glob("nvidia_cudnn_frontend-*"))
        self.pin(self.pinned, [line])
        wheel.rename(self.root / wheel.name)
        self.assertIn("runtime.attention: cudnn is refused", self.run_setup()[1])
        self.run_setup("--print-frontend", code=1)
        (self.root / wheel.name).rename(wheel)
        self.run_setup()
        folder = Path(self.run_setup("--print-frontend")[0])
        self.assertTrue((folder / "include/cudnn_frontend.h").exists())
        self.assertFalse((folder / "cudnn").exists())
        shutil.rmtree(self.index)
        self.assertIn("0.0 MB fetched", self.run_setup()[1])

    def test_what_the_sanitizers_need_is_no_libtorch(self):
        self.run_setup("--sanitize")
        self.run_setup("--print-torch-dir", code=1)

    def test_linters_have_an_environment_of_their_own(self):
        (self.root / "tools/lint_requirements.txt").write_text("# a reason\ntiny==1.0\n")
        self.assertIn("run tools/setup --lint", self.run_setup("--print-lint", code=1)[1])
        self.run_setup("--lint")
        python = Path(self.run_setup("--print-lint")[0]) / "python"
        answer = subprocess.run([python, "-c", "import tiny; print(tiny.answer)"], capture_output=True, text=True)
        self.assertEqual(answer.stdout, "42\n")
        self.run_setup("--print-torch-dir", code=1)
        self.run_setup("--print-python", code=1)
        shutil.rmtree(self.index)
        self.assertIn("0.0 MB fetched", self.run_setup("--lint")[1])
        (python.parents[1] / ".complete").unlink()
        self.assertIn("unfinished", self.run_setup("--lint")[1])

    def test_refuses_bytes_that_do_not_match_the_pin(self):
        wheel = next(self.index.glob("torch-*"))
        with zipfile.ZipFile(wheel, "a") as file:
            file.writestr("torch/lib/extra.so", "evil")
        _, err = self.run_setup(code=1)
        self.assertIn("pip download failed", err)
        self.run_setup("--print-torch-dir", code=1)
        self.assertEqual(list(self.cache.glob("libtorch*")), [])

    def test_replaces_a_damaged_wheel(self):
        self.run_setup()
        shutil.rmtree(next(self.cache.glob("libtorch*")))
        wheel = next((self.cache / "wheels").glob("torch-*"))
        wheel.write_bytes(wheel.read_bytes()[:-1])
        self.assertIn("is damaged", self.run_setup()[1])
        self.run_setup("--print-torch-dir")

    def test_two_at_once_fetch_once(self):
        processes = [self.start() for _ in range(3)]
        errs = [p.communicate(timeout=120)[1] for p in processes]
        self.assertEqual([p.returncode for p in processes], [0, 0, 0], errs)
        self.assertEqual("".join(errs).count("fetching torch"), 1)

    def test_killed_at_any_moment_it_leaves_nothing_half_done(self):
        for delay_s in (0.1, 0.4, 0.7, 1.1):
            process = self.start()
            time.sleep(delay_s)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            for site in self.cache.glob("libtorch*/site-packages"):
                self.assertTrue((site / "torch/lib/libtorch_cpu.so").exists())
                self.assertTrue((site / "nvidia/cu13/lib/libcudart.so.13").exists())
        (self.cache / ".part-old/whole").mkdir(parents=True)
        shutil.rmtree(self.cache / "libtorch-2.11.0-cpu", ignore_errors=True)
        self.run_setup()
        self.assertEqual(list(self.cache.rglob(".part-*")), [])

    def check_that_extra_packages_lie_beside(self, python):
        """In a folder for PYTHONPATH; another version of it leaves the environment alone."""
        folder = self.run_setup("--print-extra")[0]
        script = [python, "-c", "import small; print(small.answer)"]
        answer = subprocess.run(script, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folder})
        self.assertEqual(answer.stdout, "43\n", answer.stderr)
        self.assertNotEqual(subprocess.run(script, capture_output=True).returncode, 0, "it is in the environment itself")
        make_wheel(self.index, "small", "2.0", "py3-none-any", {"small.py": "answer = 2\n"})
        (self.root / "tests/integration/extra_requirements.txt").write_text("small==2.0\n")
        self.run_setup("--python")
        self.assertNotEqual(self.run_setup("--print-extra")[0], folder)
        self.assertEqual(self.run_setup("--print-python")[0], str(python))

    def test_python_environment(self):
        self.run_setup("--print-python", code=1)
        self.assertIn("run tools/setup --python", self.run_setup("--print-extra", code=1)[1])
        self.run_setup("--python")
        python = Path(self.run_setup("--print-python")[0])
        answer = subprocess.run([python, "-c", "import tiny; print(tiny.answer)"], capture_output=True, text=True)
        self.assertEqual(answer.stdout, "42\n")
        self.assertEqual(list(self.cache.glob("libtorch*")), [], "the environment's torch serves the build")
        self.assertTrue(self.run_setup("--print-torch-dir")[0].startswith(str(python.parents[1])))
        self.check_that_extra_packages_lie_beside(python)
        (python.parents[1] / ".complete").unlink()
        self.run_setup("--print-python", code=1)
        self.assertIn("unfinished", self.run_setup("--python")[1])
        self.run_setup("--print-python")


if __name__ == "__main__":
    unittest.main()
