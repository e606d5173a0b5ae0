"""The instructions of packaging/Dockerfile, and what they do to a folder that holds the root of a bare machine.

    dockerfile.py --context DIR --root MACHINE [NAME=VALUE ...]

No image and no layers: COPY copies, RUN runs in a chroot, and at the end come the entry point and what the image is for,
as its user. The variables are how packages are reached from here; a build in Docker would have them from its daemon.
"""
import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[2] / "packaging/Dockerfile"
BASES = {"debian:12-slim": "VERSION_CODENAME=bookworm"}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a user does with the image, after its entry point.
USES = ["torchrun --standalone --no-python --nproc-per-node=2 wmtp doctor --cluster --device cpu",
        "wmtp data demo --out demo --rows 200 && test -O demo"]


def instructions():
    """The Dockerfile as [(word, rest)], continued lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class Image:
    """BORROWS the root: a machine whose /proc and /dev are mounted. `context` has what Docker would be sent."""

    def __init__(self, root, context, variables):
        self.root, self.context, self.variables = root, context, variables
        self.args, self.environment = {}, {"PATH": SYSTEM_PATH}
        self.user, self.folder, self.entry, self.command = "0", "/", [], []

    def apply(self, word, rest):
        method = getattr(self, f"do_{word.lower()}", None)
        if method is None:
            sys.exit(f"dockerfile: {word} is not known here: {rest}")
        method(rest)

    def filled_in(self, text):
        known = {**self.args, **self.environment}
        return re.sub(r"\$\{(\w+)\}", lambda found: known[found[1]], text)

    def inside(self, path):
        return self.root / path.lstrip("/")

    def do_from(self, base):
        if BASES[base] not in self.inside("/etc/os-release").read_text():
            sys.exit(f"dockerfile: {self.root} is not what {base} is made of")

    def do_arg(self, rest):
        name, value = rest.split("=", 1)
        self.args[name] = value

    def do_env(self, rest):
        for pair in shlex.split(self.filled_in(rest)):
            name, value = pair.split("=", 1)
            self.environment[name] = value

    def do_user(self, user):
        self.user = user

    def do_workdir(self, folder):
        self.folder = folder
        self.inside(folder).mkdir(parents=True, exist_ok=True)

    def do_entrypoint(self, rest):
        self.entry = json.loads(rest)

    def do_cmd(self, rest):
        self.command = json.loads(rest)

    def do_copy(self, rest):
        """A folder's content, or files, into a folder: the forms in use. As in an image all of it is root's."""
        *sources, target = self.filled_in(rest).split()
        for source in sources:
            path = self.context / source
            if path.is_dir():
                shutil.copytree(path, self.inside(target), symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(path, self.inside(target))

    def do_run(self, rest):
        self.run(rest, {**self.args, **self.environment})

    def run(self, script, environment):
        words = [f"{name}={value}" for name, value in {**environment, **self.variables}.items()]
        # As in a container: group and home folder are those of the number in the machine's own list.
        accounts = [line.split(":") for line in self.inside("/etc/passwd").read_text().splitlines()]
        ((group, home),) = [(fields[3], fields[5]) for fields in accounts if fields[2] == self.user]
        began = time.monotonic()
        done = subprocess.run(["chroot", f"--userspec={self.user}:{group}", "--groups=", self.root, "env", "-i", *words,
                               f"HOME={home}", "sh", "-c", 'cd "$1" && exec sh -c "$2"', "sh", self.folder, script])
        print(f"-- user {self.user}, {time.monotonic() - began:.0f} s, ended with {done.returncode}: "
              f"{' '.join(script.split())}", flush=True)
        if done.returncode:
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=Path, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("variables", nargs="*")
    args = parser.parse_args()
    image = Image(args.root, args.context, dict(pair.split("=", 1) for pair in args.variables))
    for word, rest in instructions():
        print(f"== {word} {' '.join(rest.split())}", flush=True)
        image.apply(word, rest)
    for script in [shlex.join(image.entry + image.command), *USES]:
        image.run(script, image.environment)


if __name__ == "__main__":
    main()
