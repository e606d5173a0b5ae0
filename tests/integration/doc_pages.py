"""Pages of the documentation whose blocks build upon each other: each block is run once, in a folder, and the page knows which were."""
import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks(path):
    """{(heading, number): (language, text)}"""
    found, heading = {}, ""
    for mark, title, language, text in re.findall(r"^(## )([^\n]+)$|^```(\w+)\n(.*?)^```$", path.read_text(), re.M | re.S):
        heading = title if mark else heading
        if not mark:
            found[heading, sum(key[0] == heading for key in found)] = (language, text)
    return found


def environment(wmtp, **more):
    """With `wmtp` and the `python` of the tests where a shell looks for them, and no way to the Hub."""
    path = f"{wmtp.binary.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def ended(process, code=0):
    text = process.communicate(timeout=300)[0]
    assert process.returncode == code, f"ended with {process.returncode}, not {code}:\n{text}"
    return text


class Page:
    """Runs blocks of a page in `folder`, each once, and knows which."""

    def __init__(self, path, folder, env):
        self.folder, self.env, self.blocks, self.done = folder, env, blocks(path), set()

    def text(self, heading, number=0):
        self.done.add((heading, number))
        return self.blocks[heading, number][1]

    def start(self, heading, *numbers, **env):
        """One process for blocks of one language: a start of Python costs seconds."""
        text = "".join(self.text(heading, number) for number in numbers)
        command = {"sh": ["bash", "-euo", "pipefail", "-c", text], "python": [sys.executable, "-c", text]}
        return self.popen(command[self.blocks[heading, numbers[0]][0]], **env)

    def popen(self, words, **env):
        return subprocess.Popen(words, cwd=self.folder, env={**self.env, **env}, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def run(self, heading, *numbers):
        """What they printed; they must end with 0."""
        return ended(self.start(heading, *(numbers or [0])))

    def run_here(self, heading, number, names=None):
        """A block of Python in this process, which has imported torch already; `names` get what it defines."""
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(self.text(heading, number), {} if names is None else names)
        return printed.getvalue()

    def wmtp(self, *words):
        return ended(self.popen(["wmtp", *map(str, words)]))
