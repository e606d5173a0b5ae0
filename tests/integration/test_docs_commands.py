"""Every command line of README.md and docs/*.md does what its page says it can: it is run in a scratch folder that has what the
pages assume, or, in a block under `<!-- no-run: reason -->` (network, GPU, cluster, minutes), read by the program's own parser.
Names of commands and flags in the running text are read by that parser as well."""
import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Whose blocks build upon each other: test_qwen3_recipe.py, test_guides.py.
ELSEWHERE = {"qwen3.md", "guide_four_stages.md", "guide_lora_serving.md"}
PROGRAMS = ("wmtp", "make", "python", "torchrun", "srun", "mpirun")
NO_RUN = re.compile(r"<!-- no-run: (.+?) -->")

# What the pages assume: run.yaml is a small run `a` of a model `qwen3`, lora.yaml one of adapters upon models/llama, old.yaml one
# of the Python project.
RUN = """
experiment: {{name: {name}, stage: baseline}}
models: {{policy: {{path: {model}, name: qwen3, tokenizer_path: demo, dtype: fp32{more}}}}}
dataset: {{train: demo/train.jsonl, validation: demo/validation.jsonl, max_length: 96}}
data_sampling: {{n_samples: 200, val_n_samples: 4}}
training: {{n_epochs: 100, max_steps: 100, batch_size: 1, learning_rate: 1e-3, use_lora: {lora}, eval_every_steps: 50}}
checkpoint: {{save_checkpoint_every: null, save_every_steps: 50, async: false}}
runtime: {{device: cpu, threads: 1}}
"""
SHAPE = ", init: random, params: {dim: 16, n_layers: 5, n_heads: 2, n_kv_heads: 1, head_dim: 8, ffn_dim: 16}"


def blocks(text):
    """(lines, reason or None) of each block of code: fenced, or indented by four after an empty line or a heading."""
    lines, block, reason, fenced = [*text.splitlines(), ""], [], None, False
    for before, line in zip(["", *lines], lines):
        begins = not block and line.startswith("    ") and (not before.strip() or before.startswith("#"))
        if line.startswith("```"):
            if fenced:
                yield block, reason
            block, fenced, reason = [], not fenced, None if fenced else reason
        elif fenced or begins or (block and line.startswith("    ")):
            block.append(line.strip())
        else:
            if block:
                yield block, reason
                block, reason = [], None
            if found := NO_RUN.search(line):
                reason = found[1]
            elif line.strip():
                reason = None


def commands(page):
    """(words, reason or None) of each command line of a page; comments and what follows a pipe are left out."""
    for lines, reason in blocks(page.read_text()):
        for line in lines:
            if line.split(" ")[0] in PROGRAMS:
                words = shlex.split(line, comments=True)
                yield words[:words.index("|")] if "|" in words else words, reason


def mentions(page):
    """Words of each `wmtp ...` in running text and tables; alternatives one by one, placeholders as a number."""
    text = re.sub(r"^```.*?^```$|^    .*$", "", page.read_text(), flags=re.M | re.S)
    for span in re.findall(r"`wmtp ([^`]+)`", text):
        span = span.replace("\\|", "|").partition(" | ")[0].partition(" -- COMMAND")[0]
        span = re.sub(r"\b[A-Z]+\b(\.\.\.)?", "1", re.sub(r"[\[\]]", "", span))
        words = [word for word in span.split() if word != "..."]
        if not words:
            continue
        options = [word.split("|") if "|" in word else [word] for word in words]
        for at in range(max(map(len, options))):
            yield [choice[min(at, len(choice) - 1)] for choice in options]


class Parser:
    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def error(self, words):
        """What is wrong with a command line: the message and the words that nothing takes; or nothing."""
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return (answer["error"], answer["unknown"]) if answer["error"] else None


@pytest.fixture(scope="module")
def parser(wmtp):
    parser = Parser(wmtp.binary.parent / "wmtp_command_probe")
    yield parser
    parser.process.stdin.close()
    parser.process.wait()


@pytest.fixture(scope="module")
def folder(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    (folder / "configs").symlink_to(ROOT / "configs")
    (folder / "run.yaml").write_text(RUN.format(name="a", model="micro", more=SHAPE, lora="false"))
    (folder / "old.yaml").write_text(RUN.format(name="old", model="micro", more=SHAPE, lora="false") + "project: {name: old}\n")
    (folder / "lora.yaml").write_text(RUN.format(name="lora", model="models/llama", more="", lora="true"))
    for words in ("data demo --out demo --rows 200", "train --config run.yaml", "checkpoint export runs/a --format hf --out models/llama",
                  "train --config lora.yaml"):
        wmtp.run(*words.split(), cwd=folder)
    shutil.copytree(folder / "runs/lora/final", folder / "adapter")
    shutil.copytree(folder / "runs/a", folder / "runs/b")
    for stage in ("baseline", "critic", "rho1"):
        shutil.copytree(folder / "runs/a", folder / "runs" / stage)
    rows = (folder / "demo/validation.jsonl").read_text().splitlines()
    (folder / "rows.jsonl").write_text("\n".join(rows[:4]) + "\n")
    return folder


def shortened(words):
    """A run of a shipped configuration is ended after a few steps."""
    return [*words, "--max-steps", "3"] if "train" in words and "configs/" in words[-1] else words


def test_every_command_line_of_the_documents_runs_or_parses(wmtp, parser, folder):
    env = {**os.environ, "PATH": f"{wmtp.binary.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    num_run = num_parsed = 0
    faults = []
    for page in (page for page in PAGES if page.name not in ELSEWHERE):
        for words, reason in commands(page):
            line = f"{page.name}: {shlex.join(words)}"
            if reason is None:
                num_run += 1
                done = subprocess.run(shortened(words), cwd=folder, env=env, capture_output=True, text=True, timeout=60)
                if done.returncode:
                    faults.append(f"{line}\n  ended with {done.returncode}: {done.stderr[-600:]}")
                continue
            num_parsed += 1
            if words[0] == "make":
                dry = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
                if dry.returncode:
                    faults.append(f"{line}\n  {dry.stderr}")
            elif words[0] == "wmtp":
                if error := parser.error(words[1:]):
                    faults.append(f"{line}\n  {error}")
            elif words[0] == "python" and not (ROOT / words[1]).exists():
                faults.append(f"{line}\n  there is no {words[1]}")
    print(f"{num_run} command lines run, {num_parsed} parsed")
    assert not faults, "\n".join(faults)
    assert num_run >= 15 and num_parsed >= 5


def test_the_examples_of_the_benchmarks_parse(wmtp, parser):
    """Those of the other commands: tests/cli/help_test.cpp."""
    if not (wmtp.binary.parent / "wmtp-bench").exists():
        pytest.skip("no wmtp-bench in this build")
    for name in re.findall(r"^  (\w+)  ", wmtp.run("bench", "--help").stdout.partition("\nCommands\n")[2].partition("\n\n")[0], re.M):
        examples = wmtp.run("bench", name, "--help").stdout.partition("\nExamples\n")[2].splitlines()
        assert len(examples) in (2, 3) and all(f" bench {name}" in line for line in examples), (name, examples)
        assert not [error for line in examples if (error := parser.error(shlex.split(line)[1:]))]


def test_the_text_names_commands_and_flags_that_there_are(parser):
    """Mentions are not whole command lines: what they leave out is no fault, what there is not is one."""
    faults = [f"{page.name}: wmtp {' '.join(words)}: {error}" for page in PAGES for words in mentions(page)
              if (error := parser.error(words)) and error[1]]
    assert not faults, "\n".join(faults)
