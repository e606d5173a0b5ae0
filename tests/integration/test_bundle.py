"""The bundle works away from the checkout, once it knows where torch is."""
import os
import shutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("WMTP_BIN", ROOT / "build/bin/wmtp")).parents[1]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    out = tmp_path_factory.mktemp("bundle")
    subprocess.run([ROOT / "packaging/bundle.sh", "--build", BUILD, "--out", out / "made"], check=True)
    made = next((out / "made").glob("wmtp-*-linux-x86_64"))
    return Path(shutil.move(made, out / "moved"))


def test_runs_after_link_torch(bundle):
    done = subprocess.run([bundle / "link-torch.sh", sys.executable], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("wmtp ") and re.search(r"LibTorch +2\.11\.0", done.stdout)


def test_takes_its_libraries_from_itself_and_torch_only(bundle):
    """Our own libraries from lib/, LibTorch through the link, only C and C++ from the system."""
    subprocess.run([bundle / "link-torch.sh", sys.executable], check=True, stdout=subprocess.DEVNULL)
    lines = subprocess.run(["ldd", bundle / "bin/wmtp"], capture_output=True, text=True).stdout.splitlines()
    paths = [line.split()[2] for line in lines if "=>" in line]
    assert "not" not in paths
    outside = {Path(p).name.split(".so")[0] for p in paths if not p.startswith(str(bundle))}
    assert outside <= {"libc", "libm", "libdl", "libpthread", "librt", "libutil", "libgcc_s", "libstdc++"}


def test_link_torch_refuses_a_python_without_torch(bundle):
    done = subprocess.run([bundle / "link-torch.sh", bundle / "lib"], capture_output=True, text=True)
    assert done.returncode == 1 and "has no torch" in done.stderr


def test_an_installation_runs_from_its_prefix_with_its_own_libraries_and_defaults(tmp_path):
    words = [ROOT / "packaging/install.sh", "--build", BUILD, "--prefix", tmp_path / "a b"]
    pages = tmp_path / "a b/share/man/man1"
    pages.mkdir(parents=True)
    (pages / "wmtp-gone.1").symlink_to("../../../lib/wmtp/share/man/man1/wmtp-gone.1")  # of a command that was
    for _ in range(2):  # the second one replaces the first
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0 and f"[install] {tmp_path}/a b/bin/wmtp\n" in done.stdout, done.stderr
    env = {"PATH": f"{tmp_path}/a b/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["wmtp", "version"], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert re.search(r"LibTorch +2\.11\.0", done.stdout), done.stderr
    mapped = subprocess.run(["ldd", (tmp_path / "a b/bin/wmtp").resolve()], capture_output=True, text=True).stdout
    assert "not found" not in mapped and f"{tmp_path}/a b/lib/wmtp/bin/../lib/" in mapped
    assert str(ROOT) not in mapped
    (tmp_path / "run.yaml").write_text(
        "experiment: {name: x, stage: baseline}\nmodels: {policy: {path: micro, init: random}}\n"
        "dataset: {train: rows.jsonl}\ntraining: {learning_rate: 1.0e-4}\n")
    done = subprocess.run(["wmtp", "validate", "--config", "run.yaml", "--no-check-paths", "--resolved", "--origins"],
                          capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.returncode == 0 and "lib/wmtp/share/wmtp/configs/defaults.yaml" in done.stdout, done.stdout + done.stderr
    for file in ("man/man1/wmtp.1", "man/man1/wmtp-train.1", "bash-completion/completions/wmtp", "zsh/site-functions/_wmtp",
                 "fish/vendor_completions.d/wmtp.fish"):
        link = tmp_path / "a b/share" / file
        assert link.is_symlink() and link.read_text() and link.resolve().is_relative_to(tmp_path / "a b/lib/wmtp/share"), file
    assert not (pages / "wmtp-gone.1").is_symlink()
    dry = subprocess.run(["make", "-n", "install", "PREFIX=/opt/x"], capture_output=True, text=True, cwd=ROOT).stdout
    assert 'packaging/install.sh --build build --prefix "/opt/x"' in dry


def test_takes_the_named_programs_and_refuses_one_that_is_not_there(tmp_path):
    """Small stand-ins: a whole bundle with tests costs seconds, and what is asked here is which programs come along."""
    (tmp_path / "build/bin").mkdir(parents=True)
    for name in ("wmtp", "a_test", "b_test", "c_test"):
        shutil.copy("/bin/true", tmp_path / "build/bin" / name)
    words = [ROOT / "packaging/bundle.sh", "--build", tmp_path / "build", "--out", tmp_path]
    subprocess.run([*words, "--programs", "a_test,c_test"], check=True)
    made = next(tmp_path.glob("wmtp-*/bin"))
    assert sorted(path.name for path in made.iterdir()) == ["a_test", "c_test", "wmtp"]
    done = subprocess.run([*words, "--with-tests"], capture_output=True, text=True)
    assert done.returncode == 1 and "bin/comm_test: run make build first" in done.stderr


def test_with_tests_takes_all_that_the_gpu_scripts_run():
    """Every bin/NAME in tests/gpu, and of the parts that check.sh lists, is in the bundle."""
    listing = subprocess.run([ROOT / "tests/gpu/check.sh", "--list"], capture_output=True, text=True, check=True).stdout
    asked = set()
    for text in (listing, *(path.read_text() for path in (ROOT / "tests/gpu").iterdir() if path.is_file())):
        asked |= set(re.findall(r"""(?:bundle|BUNDLE)[^\n]{0,6}/bin/(\w+)|"/?bin/(\w+)\"""", text))
    names = {name for pair in asked for name in pair if name}
    listed = re.search(r"^tests_on_gpu=(.*)$", (ROOT / "packaging/bundle.sh").read_text(), re.M)[1]
    assert names == {"wmtp", *listed.split(",")}
