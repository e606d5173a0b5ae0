"""What is made of the command tree has all of it: man pages, checked by mandoc, and the completion of three shells, asked for every
command, every flag and every value. The tree is read from CLI11 by wmtp_command_probe, not from what is tested."""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASH = """source <("$1" completion bash)
while IFS= read -r line; do
  # As readline cuts a line: = is a word of its own.
  read -ra COMP_WORDS <<< "${line//=/ = }"
  [[ $line == *' ' || $line == *= ]] && [[ $line != *= ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _wmtp
  echo "${COMPREPLY[*]}"
done"""
# Without an editor there is no completion system: the words it would be given are set, what it would be told is printed.
ZSH = """compdef() { :; }; compadd() { shift; print -n -- "$* "; }; _files() { print -n -- 'FILES '; }
compset() { PREFIX=${PREFIX#*=}; }
source <("$1" completion zsh)
while IFS= read -r line; do
  words=(${(s: :)line}); [[ $line == *' ' ]] && words+=('')
  CURRENT=$#words PREFIX=$words[-1]
  _wmtp
  print
done"""
FISH = """eval "$argv[1] completion fish" | source
while read -l line
  echo (complete -C "$line" | string split -f1 \\t)
end"""


class Tree:
    def __init__(self, binary):
        lines = subprocess.run([binary.parent / "wmtp_command_probe", "tree"], capture_output=True, text=True, check=True).stdout
        self.commands = {node["path"]: node for node in map(json.loads, lines.splitlines())}

    def flags(self, path):
        """Its own and those of the commands around it, but --version, which is the program's alone."""
        words = path.split()
        around = [" ".join(words[:count]) for count in range(len(words) + 1)]
        return [option for at in around for option in self.commands[at]["options"]
                if option["names"] and (not path or "--version" not in option["names"])]

    def inner(self, path):
        return [at.split()[-1] for at in self.commands if at and at.rpartition(" ")[0] == path]


def choices(option):
    listed = re.search(r"\{([^}]*)\}", option["type"])
    shown = option["type"].partition(":")[0]
    if "|" in shown:
        return [word for word in shown.split("|") if word == word.lower()]
    return listed[1].split(",") if listed else []


@pytest.fixture(scope="module")
def tree(wmtp):
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build, so no whole tree")
    return Tree(wmtp.binary)


@pytest.fixture(scope="module")
def pages(wmtp, tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("man") / "new"
    wmtp.run("completion", "man", "--out", folder)
    return folder


def shown(page):
    """As a reader sees it, without the lines that man breaks."""
    done = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=500", page], capture_output=True, text=True, check=True)
    return re.sub("\x08.", "", re.sub(".\x08", "", done.stdout))


def test_every_command_and_flag_has_its_place_in_a_man_page(tree, pages):
    assert len(tree.commands) > 30
    named = {path: pages / ("-".join(["wmtp", *path.split()]) + ".1") for path in tree.commands}
    assert set(pages.iterdir()) == set(named.values())
    for path, page in named.items():
        text = shown(page)
        assert tree.commands[path]["description"].removeprefix("wmtp: ") in text, path
        for option in tree.commands[path]["options"]:
            assert option["description"] in text, (path, option)
            assert all(re.search(rf"^ +.*(?<![\w-]){name}(?![\w-])", text, re.M) for name in option["names"]), (path, option)
        for inner in tree.inner(path):
            assert f"{page.stem}-{inner}(1)" in text, (path, inner)


def test_the_front_page_has_the_exit_codes_of_the_troubleshooting_page(pages):
    codes = set(re.findall(r"^ +(\d+) ", shown(pages / "wmtp.1").partition("EXIT STATUS")[2], re.M))
    listed = re.findall(r"^\| ([\d, ]+) \|", (ROOT / "docs/troubleshooting.md").read_text(), re.M)
    told = {code for row in listed for code in row.split(", ")} - {"127"}  # the loader's, not ours
    assert codes == told | {"0"}


def test_mandoc_and_groff_find_no_fault(pages):
    files = sorted(pages.iterdir())
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *files], capture_output=True, text=True)
    faults = [line for line in done.stdout.splitlines() if "missing date" not in line]  # a page is the same whenever it is made
    assert not faults, "\n".join(faults[:20])
    assert all(file.read_bytes().isascii() for file in files)


def test_man_pages_go_to_a_folder_that_is_named(wmtp, tmp_path):
    assert "--out DIR" in wmtp.error("completion", "man", code=78)["hint"]
    assert "goes to stdout" in wmtp.error("completion", "zsh", "--out", tmp_path, code=78)["message"]
    (tmp_path / "file").write_text("")
    assert "cannot make the folder" in wmtp.error("completion", "man", "--out", tmp_path / "file/man1", code=74)["message"]


SHELLS = {"bash": ["bash", "-c", BASH, "bash"], "zsh": ["zsh", "-f", "-c", ZSH, "zsh"], "fish": ["fish", "--no-config", "-c", FISH]}


@pytest.fixture(scope="module", params=SHELLS)
def complete(request, wmtp, tmp_path_factory):
    """Asks a shell what may follow each of the lines."""
    shell, folder = request.param, tmp_path_factory.mktemp(request.param)
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    (folder / "my run.yaml").write_text("")

    def ask(lines):
        done = subprocess.run([*SHELLS[shell], wmtp.binary], input="".join(f"{line}\n" for line in lines), capture_output=True,
                              text=True, cwd=folder, env={**os.environ, "HOME": str(folder), "TERM": "dumb"})
        answers = done.stdout.splitlines()
        assert len(answers) == len(lines) and not done.stderr, done
        return [answer.split(" ") for answer in answers]
    ask.shell = shell
    return ask


def test_a_shell_completes_every_command_flag_and_value(tree, complete):
    asked = {}
    for path in tree.commands:
        begin = " ".join(["wmtp", *path.split()])
        asked[f"{begin} "] = set(tree.inner(path))
        asked[f"{begin} -"] = {name for option in tree.flags(path) for name in option["names"]}
        for option in tree.flags(path):
            for name in option["names"]:
                if words := choices(option):
                    asked[f"{begin} {name} "] = set(words)
    assert len(asked) > 100
    for (line, wanted), found in zip(asked.items(), complete(list(asked))):
        assert wanted <= set(found), f"{complete.shell}: {line!r} lacks {wanted - set(found)}: {found}"


def test_a_shell_completes_behind_the_dashes_of_launch_and_behind_an_equals_sign(complete):
    found = complete(["wmtp launch --nproc 2 -- do", "wmtp launch -- doctor --coll", "wmtp train --device=c", "wmtp completion ",
                      "wmtp train --resume ", "wmtp bench "])
    behind = ["--device=cpu"] if complete.shell == "fish" else ["cpu"]
    for answer, wanted in zip(found, (["doctor"], ["--collectives"], behind, ["bash", "zsh", "fish", "man"], ["auto", "never"],
                                      ["step", "comm"])):
        assert set(wanted) <= set(answer), (wanted, answer)


def test_where_there_is_no_list_files_are_offered_and_no_flags(complete):
    """Of bash: nothing, where readline's own file names come in (`complete -o default`)."""
    [answer] = complete(["wmtp train --config "])
    wanted = {"bash": [""], "zsh": ["FILES", ""], "fish": ["my", "run.yaml"]}[complete.shell]
    assert answer == wanted or complete.shell == "fish" and " ".join(answer).replace("\\", "") == "my run.yaml", answer
