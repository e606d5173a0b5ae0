"""tools/check_names accepts a sound tree and names what two sources of a module both keep to themselves."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools/check_names"


def hidden(text):
    return "namespace wmtp {\nnamespace {\n" + text + "\n}  // namespace\n}  // namespace wmtp\n"


SOUND = {
    "core/json.cpp": hidden("constexpr int kDepth = 3;\nstruct Reader { int at; };\nint skip(Reader& reader) { int n = 0; return n; }"),
    "core/digest.cpp": hidden("constexpr int kRounds = 64;\nstruct Block { int at; };\nint mix(Block& block) { int n = 1; return n; }"),
    "config/load.cpp": hidden("int skip(int line);"),
    "core/time.cpp": "namespace wmtp {\nint now() { return 0; }\n}\n",
    "core/clock.cpp": "namespace wmtp {\nint now(int unit) { return unit; }\n}\n",
}


class CheckNames(unittest.TestCase):
    def check(self, files=()):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**SOUND, **dict(files)}.items():
                path = Path(root) / "src/wmtp" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True)

    def assert_sound(self, files=()):
        done = self.check(files)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("0 double", done.stdout)

    def assert_double(self, name, text):
        done = self.check({"core/other.cpp": hidden(text)})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"core: {name} is in core/json.cpp, core/other.cpp\n", done.stdout)
        self.assertIn("1 double", done.stdout)

    def test_sound_tree(self):
        self.assert_sound()

    def test_function(self):
        self.assert_double("skip", "void skip(int a, int b) {}")

    def test_declared_function(self):
        self.assert_double("skip", "void skip(int a, int b);")

    def test_template_of_a_function(self):
        self.assert_double("skip", "template <typename T, int N = 3>\nT skip(T value) { return value; }")

    def test_constant(self):
        self.assert_double("kDepth", "constexpr double kDepth = 1.5;")

    def test_table(self):
        self.assert_double("kDepth", "constexpr int kDepth[] = {1, 2, 3};")

    def test_type(self):
        self.assert_double("Reader", "class Reader final { public: void read(); };")

    def test_alias_with_a_name_of_its_own(self):
        self.assert_double("Reader", "using Reader = int;")

    def test_a_name_that_is_only_brought_in_does_not_count(self):
        self.assert_sound({"core/other.cpp": hidden("using config::skip;\nusing namespace config;")})

    def test_the_same_name_in_two_modules_is_fine(self):
        self.assert_sound({"storage/read.cpp": SOUND["core/json.cpp"]})

    def test_what_is_inside_of_bodies_and_comments_does_not_count(self):
        text = "// int skip(int a);\nint walk() { struct Reader { int at; }; int kDepth = 1; return kDepth; }\n/* struct Reader {}; */"
        self.assert_sound({"core/other.cpp": hidden(text)})

    def test_kernels_in_cuda_folders_are_compiled_one_by_one(self):
        self.assert_sound({"core/cuda/other.cpp": SOUND["core/json.cpp"]})


if __name__ == "__main__":
    unittest.main()
