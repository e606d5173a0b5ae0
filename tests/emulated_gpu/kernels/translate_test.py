#!/usr/bin/env python3
"""translate.py: what it makes of launches, shared memory and launch bounds, and that it refuses what it does not know."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TRANSLATE = Path(__file__).resolve().parent / "translate.py"


def translate(text):
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "x.cu", Path(folder) / "out/x.cpp"
        source.write_text(text)
        done = subprocess.run([sys.executable, TRANSLATE, source, "src/x.cu", out], capture_output=True, text=True)
        return out.read_text().removeprefix('#line 1 "src/x.cu"\n') if done.returncode == 0 else None, done.stderr


class Translate(unittest.TestCase):
    def expect(self, text, wanted):
        result, errors = translate(text)
        self.assertEqual(result, wanted, errors)

    def expect_refused(self, text, line, why):
        result, errors = translate(text)
        self.assertIsNone(result)
        self.assertRegex(errors, rf"^src/x\.cu:{line}: error: .*{why}")

    def test_launches(self):
        self.expect("f<<<1, 2>>>(a);", '::wmtp::emulated::configured("f", f, 1, 2)(a);')
        self.expect("x ? a::f<T, (2 > 1)>\n  <<<g(1, 2), n>>>(a, b) : 0;",
                    'x ? ::wmtp::emulated::configured("a::f<T, (2 > 1)>", a::f<T, (2 > 1)>\n  , g(1, 2), n)(a, b) : 0;')
        self.expect("f<<<1,\n  2>>>(a);\ng();", '::wmtp::emulated::configured("f", f, 1,\n  2)(a);\ng();')

    def test_what_is_no_code_stays(self):
        for text in ('// f<<<1, 2>>>(a)\n', '/* __shared__\n <<< */\n', 'char c[] = "<<<";', "int n = 1'000'000;"):
            self.expect(text, text)

    def test_shared_variables(self):
        self.expect("extern __shared__ __align__(16) unsigned char s[];",
                    "[[maybe_unused]] unsigned char* const s = ::wmtp::emulated::dynamic_shared<unsigned char>();")
        opened = "".join(f" static ::wmtp::emulated::SharedVariable {name}_in_block; {name}_in_block.open(&{name}, sizeof({name}));"
                         for name in ("a", "b"))
        self.expect("__shared__ T a[2][k + 1], b;", "static T a[2][k + 1], b;" + opened)

    def test_launch_bounds(self):
        self.expect("__global__ void __launch_bounds__(N > 2 ? 64 : 32, 2)\n    f(int a) {\n}",
                    "__global__ void \n    f(int a) { ::wmtp::emulated::check_launch_bounds(N > 2 ? 64 : 32, 2);\n}")
        self.expect("__global__ void __launch_bounds__(4) f(int a);", "__global__ void  f(int a);")

    def test_what_it_does_not_understand_is_refused(self):
        self.expect_refused("\nf<<<1, 2;", 2, "a launch without >>>")
        self.expect_refused("f<<<1, 2>>>;", 1, r"without arguments")
        self.expect_refused("\n\n(*f)<<<1, 2>>>(a);", 3, "neither a kernel's name nor a variable")
        self.expect_refused("f<<<1, g<2>>>>(a);", 1, "right before >>>")
        self.expect_refused("{ T><<<1, 2>>>(a);", 1, "that nothing opens")
        self.expect_refused("f<<<1, (2>>>(a;", 1, "")
        self.expect_refused("\nextern __shared__ float* s;", 2, "dynamic shared memory")
        self.expect_refused("__shared__ float a = 1;", 1, "a type, names and extents")
        self.expect_refused("__shared__ Pair<int, 2> a;", 1, "a type, names and extents")
        self.expect_refused("__global__ void __launch_bounds__(4) = 3;", 1, "no kernel's name")


if __name__ == "__main__":
    unittest.main()
