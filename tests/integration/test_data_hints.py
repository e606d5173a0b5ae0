"""Data as other programs write it: the command that the hint gives makes rows that the program reads."""
import json
import subprocess
import sys

import pandas
import pytest

ROWS = [{"instruction": f"add {i} and 1", "input": "", "output": f"it's \"{i + 1}\""} for i in range(3)]


def write_array(path):
    path.write_text(json.dumps(ROWS, indent=1))


def write_csv(path):
    pandas.DataFrame(ROWS).to_csv(path, index=False)


def write_tsv(path):
    pandas.DataFrame(ROWS).to_csv(path, index=False, sep="\t")


def write_parquet(path):
    pandas.DataFrame(ROWS).to_parquet(path)


def write_completions(path):
    path.write_text("".join(json.dumps({"prompt": row["instruction"], "completion": row["output"]}) + "\n" for row in ROWS))


def write_messages(path):
    path.write_text("".join(json.dumps({"messages": [{"role": "user", "content": row["instruction"]},
                                                     {"role": "assistant", "content": row["output"]}]}) + "\n"
                            for row in ROWS))


CASES = {"an array.json": write_array, "table.csv": write_csv, "table.tsv": write_tsv, "table.parquet": write_parquet,
         "completions.jsonl": write_completions, "messages.jsonl": write_messages}


@pytest.fixture(scope="module")
def tokenizer(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    wmtp.run("data", "demo", "--out", folder, "--rows", "20")
    return folder


@pytest.mark.parametrize("name", CASES)
def test_the_command_of_the_hint_makes_rows(wmtp, tokenizer, tmp_path, name):
    CASES[name](tmp_path / name)
    error = wmtp.error("data", "tokenize", name, "--tokenizer", tokenizer, code=65, cwd=tmp_path)
    assert name in error["message"]
    command = error["hint"].split(": ", 1)[1].split("; dataset.")[0]
    subprocess.run(command.replace("python3", sys.executable, 1), shell=True, check=True, cwd=tmp_path)
    made = [path for path in tmp_path.glob("*.jsonl") if path.name != name]
    assert len(made) == 1, command
    rows = [json.loads(line) for line in made[0].read_text().splitlines()]
    assert [(row["instruction"], row["output"]) for row in rows] == [(row["instruction"], row["output"]) for row in ROWS]
    wmtp.run("data", "tokenize", made[0], "--tokenizer", tokenizer)


def test_a_data_file_that_is_not_there_has_a_neighbour(wmtp, tokenizer):
    error = wmtp.error("data", "tokenize", tokenizer / "trian.jsonl", "--tokenizer", tokenizer, code=78)
    assert error["hint"] == f"did you mean {tokenizer}/train.jsonl?"
