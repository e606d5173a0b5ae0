"""tools/check_includes accepts a sound tree and names each kind of breach."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools/check_includes"
SOUND = {
    "core/CMakeLists.txt": "wmtp_module(core LIBS fmt::fmt)",
    "core/error.h": "#include <string>",
    "config/CMakeLists.txt": "wmtp_module(config DEPENDS core)",
    "config/tables/schema.cpp": '#include "wmtp/config/tables/schema.h"\n#include "wmtp/core/error.h"',
    "storage/CMakeLists.txt": "wmtp_module(storage DEPENDS core)",
    "tensor/CMakeLists.txt": "wmtp_module(tensor TORCH DEPENDS core)",
    "tensor/tensor.h": "#include <ATen/core/Tensor.h>",
    "kernels/CMakeLists.txt": "wmtp_module(kernels TORCH DEPENDS tensor)",
    "kernels/swiglu.cpp": '#include "wmtp/tensor/tensor.h"\n#include "wmtp/core/error.h"',
    "kernels/cuda/swiglu.cu": "#include <cuda_runtime.h>",
    "comm/CMakeLists.txt": "wmtp_module(comm TORCH DEPENDS core tensor)",
    "comm/launch/launch_env.cpp": 'const char* rank = std::getenv("RANK");',
    "cli/CMakeLists.txt": "wmtp_module(cli TORCH DEPENDS config kernels comm)",
    "cli/main.cpp": '#include "wmtp/core/error.h"\nbool plain = std::getenv("NO_COLOR");',
}


class CheckIncludes(unittest.TestCase):
    def check(self, **changes):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**SOUND, **changes.get("files", {})}.items():
                path = Path(root) / "src/wmtp" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True)

    def assert_breach(self, files, where, what):
        done = self.check(files=files)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(where, done.stdout)
        self.assertIn(what, done.stdout)
        self.assertIn("1 breaches", done.stdout)

    def test_sound_tree(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_edge_that_is_not_a_dependency(self):
        self.assert_breach({"storage/local.cpp": '\n#include "wmtp/config/tables/schema.h"'}, "storage/local.cpp:2:",
                           "config is not among its dependencies")

    def test_upward_edge(self):
        self.assert_breach({"core/log.cpp": '#include "wmtp/cli/main.h"'}, "core/log.cpp:1:", "cli")

    def test_siblings(self):
        self.assert_breach({"storage/CMakeLists.txt": "wmtp_module(storage DEPENDS core config)"},
                           "storage/CMakeLists.txt", "siblings")

    def test_circle(self):
        done = self.check(files={"core/CMakeLists.txt": "wmtp_module(core DEPENDS config)"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("core depends on itself", done.stdout)

    def test_umbrella_header(self):
        self.assert_breach({"kernels/rope.cpp": "#include <ATen/ATen.h>"}, "kernels/rope.cpp:1:", "14 s")

    def test_torch_in_a_torch_free_module(self):
        self.assert_breach({"config/load.cpp": "#include <c10/util/Exception.h>"}, "config/load.cpp:1:", "torch-free")

    def test_torch_in_a_cuda_kernel(self):
        self.assert_breach({"kernels/cuda/rope.cu": "#include <ATen/core/Tensor.h>"}, "kernels/cuda/rope.cu:1:",
                           "no LibTorch")

    def test_environment(self):
        self.assert_breach({"config/load.cpp": 'auto* home = getenv("HOME");'}, "config/load.cpp:1:", "getenv")

    def test_circle_through_a_sub_folder(self):
        files = {"config/load.h": '#include "wmtp/config/tables/schema.h"',
                 "config/tables/schema.h": '#include "wmtp/config/load.h"'}
        self.assert_breach(files, "src/wmtp/config/tables:", "circle")
        sound = {**files, "config/load.h": "", "config/load.cpp": files["config/load.h"]}
        self.assertEqual(self.check(files=sound).returncode, 0, "a source may stand above, its header below")

    def test_bodies_of_an_operation_are_no_circle(self):
        files = {"kernels/rope.cpp": '#include "wmtp/kernels/cpu/rope.h"',
                 "kernels/cpu/rope.h": '#include "wmtp/kernels/rope.h"'}
        self.assertEqual(self.check(files=files).returncode, 0)

    def test_comments_do_not_count(self):
        text = '// #include <ATen/ATen.h>\n/*\n#include <ATen/ATen.h>\ngetenv(\n*/\n'
        self.assertEqual(self.check(files={"config/load.cpp": text}).returncode, 0)


if __name__ == "__main__":
    unittest.main()
