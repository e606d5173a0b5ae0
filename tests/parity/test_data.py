"""Rows to tokens, held against transformers; the commands of `wmtp data`, held against plain Python."""
import gzip
import json
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
import data_sampling as reference

WITH_INPUT = ("Below is an instruction that describes a task, paired with an input that provides further context. "
              "Write a response that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n"
              "### Input:\n{input}\n\n### Response:\n")
WITHOUT_INPUT = ("Below is an instruction that describes a task. Write a response that appropriately completes the "
                 "request.\n\n### Instruction:\n{instruction}\n\n### Response:\n")


@pytest.fixture(scope="module")
def demo(wmtp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    wmtp.run("data", "demo", "--out", folder, "--seed", 5, "--rows", 120)
    rows = [json.loads(line) for line in (folder / "train.jsonl").open()]
    for i, row in enumerate(rows):
        if i % 3 == 1:
            row["input"] = f"x = {i} \u00e9\u4e2d\U0001f600"
        if i % 5 == 2:
            row["output"] = "\n  " + row["output"] + "</s> <|im_end|>"
    (folder / "train.jsonl").write_text("".join(json.dumps(row, ensure_ascii=i % 2 == 0) + "\n" for i, row in enumerate(rows)))
    return folder


def rows_of(folder):
    return [json.loads(line) for line in (folder / "train.jsonl").open()]


def config(folder, **dataset):
    options = {"train": str(folder / "train.jsonl"), "max_length": 400, **dataset}
    path = folder / "run.yaml"
    path.write_text(json.dumps({
        "experiment": {"name": "t", "stage": "baseline"},
        "models": {"policy": {"path": str(folder), "tokenizer_path": str(folder)}},
        "dataset": options, "training": {"learning_rate": 1e-4, "batch_size": 3}}))
    return path


def inspect(wmtp, path, *args):
    return wmtp.json("data", "inspect", "--config", path, "--defaults", "none", *args)


def encode(tokenizer, text):
    # The data must not be able to forge special tokens.
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids


@pytest.mark.parametrize("tokenize", ["joint", "split"])
def test_rows_become_the_ids_of_transformers(wmtp, demo, tokenize):
    tokenizer = AutoTokenizer.from_pretrained(demo)
    rows = rows_of(demo)
    numbers = ",".join(str(i) for i in range(len(rows)))
    shown = inspect(wmtp, config(demo, tokenize=tokenize), "--rows", numbers)["sequences"]
    assert len(shown) == len(rows)
    for row, sequence in zip(rows, shown):
        template = WITH_INPUT if row["input"].strip() else WITHOUT_INPUT
        prompt = template.format(**row)
        prompt_ids = encode(tokenizer, prompt)
        if tokenize == "joint":
            ids = encode(tokenizer, prompt + row["output"])
            shared = 0
            while shared < min(len(ids), len(prompt_ids)) and ids[shared] == prompt_ids[shared]:
                shared += 1
        else:
            ids, shared = prompt_ids + encode(tokenizer, row["output"]), len(prompt_ids)
        assert sequence["ids"] == [tokenizer.bos_token_id] + ids + [tokenizer.eos_token_id]
        assert sequence["prompt_len"] == shared + 1


def test_samples_of_an_epoch_follow_the_reference_order(wmtp, demo):
    path = config(demo)
    n = len(rows_of(demo))
    drawn = reference.shuffled(range(n), 42, "rows/all")
    drawn = reference.shuffled(drawn, 42, "rows")
    for epoch in (0, 3):
        shown = inspect(wmtp, path, "--sample", n, "--epoch", epoch)["sequences"]
        order = [drawn[i] for i in reference.permutation(n, 42, f"order/{epoch}")]
        assert [int(s["title"].split(":")[1]) - 1 for s in shown] == order
    # Step 2 of rank 1 of 2 with batch 3: group 1 of places 12..17.
    shown = inspect(wmtp, path, "--step", 2, "--rank", 1, "--world-size", 2)["sequences"]
    order = [drawn[i] for i in reference.permutation(n, 42, "order/0")]
    assert [int(s["title"].split("jsonl:")[1].split(":")[0]) - 1 for s in shown] == order[15:18]


def test_page_is_self_contained_and_statistics_add_up(wmtp, demo, tmp_path):
    page = tmp_path / "page.html"
    result = inspect(wmtp, config(demo), "--stats", "--sample", 2, "--html", page)
    stats = result["stats"]
    assert stats["rows"] == stats["candidates"] == stats["samples"] == 120
    assert sum(stats["lengths"]["histogram"]) == 120
    html = page.read_text()
    assert html.startswith("<!DOCTYPE html>") and "://" not in html and html.count("<pre") == 2


def test_metadata_json_matches_a_plain_reading(wmtp, demo, tmp_path):
    wmtp.run("data", "index", demo / "train.jsonl", "--tokenizer", demo, "--metadata-json", "--out", tmp_path)
    made = json.loads((tmp_path / "train_metadata.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(demo)
    rows, problems = rows_of(demo), {}
    for i, row in enumerate(rows):
        name = row["task_id"].rsplit("_", 2)[0]
        problem = problems.setdefault(name, {"difficulty": row["metadata"]["difficulty"], "correct_indices": [],
                                             "incorrect_indices": [], "correct_token_lengths": [],
                                             "incorrect_token_lengths": []})
        kind = "correct" if row["is_correct"] else "incorrect"
        problem[kind + "_indices"].append(i)
        problem[kind + "_token_lengths"].append(len(encode(tokenizer, row["output"])))
    assert made["problem_index_map"] == problems
    assert made["stats"]["total"] == len(rows) and made["stats"]["has_token_lengths"]
    assert made["stats"]["total_possible_pairs"] == sum(
        min(len(p["correct_indices"]), len(p["incorrect_indices"])) for p in problems.values())
    assert made["metadata"][7] == {"is_correct": rows[7]["is_correct"],
                                   "difficulty": rows[7]["metadata"]["difficulty"],
                                   "problem_id": rows[7]["task_id"].rsplit("_", 2)[0]}


def test_compressed_files_give_the_same_tokens(wmtp, demo, tmp_path):
    plain = inspect(wmtp, config(demo), "--rows", "3,17")["sequences"]
    packed = tmp_path / "train.jsonl.gz"
    packed.write_bytes(gzip.compress((demo / "train.jsonl").read_bytes()))
    shown = inspect(wmtp, config(demo, train=str(packed)), "--rows", "3,17")["sequences"]
    assert [s["ids"] for s in shown] == [s["ids"] for s in plain]


def test_bad_lines_are_65_with_the_place(wmtp, demo, tmp_path):
    lines = (demo / "train.jsonl").read_text().splitlines()
    lines[7] = '{"instruction": "a", "output": 7}'
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    error = wmtp.error("data", "index", tmp_path / "x.jsonl", code=65)
    assert 'x.jsonl:8:32: "output" is a number, expected a string' in error["message"]
    assert not (tmp_path / "x.widx").exists()
    done = wmtp.json("data", "index", tmp_path / "x.jsonl", "--on-bad-line", "skip", "--max-bad-fraction", 0.05)
    assert done["bad_lines"] == 1 and done["rows"] == len(lines)


def test_text_blocks_are_the_stream_cut(wmtp, demo):
    tokenizer = AutoTokenizer.from_pretrained(demo)
    path = config(demo, train=str(demo / "text.txt"), max_length=64)
    shown = inspect(wmtp, path, "--sample", 100000)["sequences"]
    ids = [tokenizer.bos_token_id] + encode(tokenizer, (demo / "text.txt").read_text()) + [tokenizer.eos_token_id]
    blocks = [ids[i:i + 64] for i in range(0, len(ids) - 63, 64)]
    order = reference.permutation(len(blocks), 42, "order/0")
    assert [s["ids"] for s in shown] == [blocks[i] for i in order]
