"""tools/check_determinism names what would make runs differ, and nothing else."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parents[2] / "tools/check_determinism"


class CheckDeterminism(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = Path(root) / "src/wmtp" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True)

    def assert_breach(self, files, where, rule):
        done = self.check(files)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{where}: {rule}:", done.stdout)
        self.assertIn("1 breaches", done.stdout)

    def assert_sound(self, files):
        done = self.check(files)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_standard_generators(self):
        for text in ("std::uniform_int_distribution<int> d(0, 1);", "std::normal_distribution<> d;",
                     "std::shuffle(a.begin(), a.end(), g);", "std::random_device source;", "std::mt19937_64 g(1);",
                     "int x = rand();", "std::srand(1);", "double x = drand48();"):
            self.assert_breach({"data/a.cpp": "\n" + text}, "data/a.cpp:2", "std-random")
        self.assert_sound({"data/a.cpp": "int x = operand(1) + my::rand(2) + g.rand(3); // rand()\nauto s = \"rand()\";"})

    def test_generators_of_aten(self):
        self.assert_breach({"model/a.cpp": "auto x = at::randn({2});"}, "model/a.cpp:1", "aten-random")
        self.assert_breach({"model/a.cpp": "x.bernoulli_(0.5);"}, "model/a.cpp:1", "aten-random")
        self.assert_sound({"model/a.cpp": "kernels::dropout(x, mask, out);"})

    def test_atomic_sums(self):
        self.assert_breach({"kernels/cuda/a.cu": "atomicAdd(&sum, x);"}, "kernels/cuda/a.cu:1", "atomic-sum")
        self.assert_breach({"kernels/a.h": "std::atomic<float> sum;"}, "kernels/a.h:1", "atomic-sum")
        self.assert_sound({"kernels/cuda/a.cu": "atomicMax(&top, x);", "comm/a.h": "std::atomic<int> n;"})

    def test_wall_clock(self):
        self.assert_breach({"optim/a.cpp": "auto t = std::chrono::system_clock::now();"}, "optim/a.cpp:1", "wall-clock")
        self.assert_breach({"optim/a.cpp": "auto t = std::time(nullptr);"}, "optim/a.cpp:1", "wall-clock")
        self.assert_sound({"optim/a.cpp": "auto t = std::chrono::steady_clock::now();"})

    def test_unordered_iteration(self):
        field = "struct A {\n  std::unordered_map<std::string, std::vector<int>> counts;\n};"
        self.assert_breach({"data/a.h": field, "data/b.cpp": "for (const auto& [k, v] : a.counts) sum += v;"},
                           "data/b.cpp:1", "unordered")
        self.assert_breach({"data/a.cpp": "std::unordered_set<int> seen;\nfor (int x : seen) f(x);"}, "data/a.cpp:2",
                           "unordered")
        self.assert_breach({"data/a.cpp": "std::unordered_set<int> seen;\nauto v = list(seen.begin(), seen.end());"},
                           "data/a.cpp:2", "unordered")
        alias = "using Words = std::unordered_map<std::string, int>;\nconst Words& words() const;"
        self.assert_breach({"data/a.h": alias, "data/a.cpp": "for (auto& w : a->words()) f(w);"}, "data/a.cpp:1",
                           "unordered")

    def test_lookups_and_other_containers_are_fine(self):
        self.assert_sound({"data/a.cpp": "std::unordered_set<int> seen;\nif (seen.insert(1).second) f();\n"
                                         "if (seen.find(2) != seen.end()) f();"})
        self.assert_sound({"data/a.cpp": "std::map<int, int> seen;\nfor (auto& [k, v] : seen) f(k);"})
        # The same name for something else, in another file.
        self.assert_sound({"data/a.h": "void f(const std::unordered_map<int, int>& ids, int n);",
                           "data/b.cpp": "for (int id : ids) f(id);"})

    def test_allowed_places_must_be_needed(self):
        self.assert_sound({"core/time.cpp": "auto t = std::chrono::system_clock::now();"})
        done = self.check({"core/time.cpp": "int x;"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("core/time.cpp: wall-clock is allowed", done.stdout)


if __name__ == "__main__":
    unittest.main()
