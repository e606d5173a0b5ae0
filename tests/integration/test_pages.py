"""`data inspect --html` and `score --html`: what stands on the pages, held against the numbers of the same commands."""
import json
import re
import shutil

import pytest
import yaml
from page_reader import Page

ROWS, BATCH = 60, 4
BINS = {"easy": [1, 2], "middle": [3, 3], "hard": [4, 9]}
SCHEDULE = [{"epoch_range": [0, 1], "difficulty_weights": {"easy": 1}},
            {"epoch_range": [1, 1.5], "difficulty_weights": {"easy": 0.5, "middle": 0.5}},
            {"epoch_range": [1.5, 2], "difficulty_weights": {"middle": 0.25, "hard": 0.75}}]


class Place:
    """A folder with the demo corpus and configurations of a tiny model drawn at random."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, folder
        wmtp.run("data", "demo", "--out", "demo", "--rows", 200, cwd=folder)
        lines = (folder / "demo/train.jsonl").read_text().splitlines(keepends=True)
        (folder / "train.jsonl").write_text("".join(lines[:ROWS]))
        self.difficulty = [json.loads(line)["metadata"]["difficulty"] for line in lines[:ROWS]]

    def config(self, stage="baseline", **sections):
        settings = {
            "experiment": {"name": "tiny", "stage": stage},
            "models": {"policy": {"path": "micro", "tokenizer_path": "demo", "init": "random", "dtype": "fp32",
                                  "params": {"dim": 16, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "head_dim": 8, "ffn_dim": 16}}},
            "dataset": {"train": "train.jsonl", "max_length": 96},
            "training": {"batch_size": BATCH, "learning_rate": 1e-3, "n_epochs": 2},
            "runtime": {"device": "cpu", "cache_dir": "cache", "threads": 1}}
        for name, keys in sections.items():
            settings.setdefault(name, {}).update(keys)
        (self.folder / "run.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
        return "run.yaml"

    def inspect(self, config, *flags):
        """What the command says as JSON, and its page."""
        said = self.wmtp.json("data", "inspect", "--config", config, *flags, "--html", "page.html", cwd=self.folder)
        return said, Page(self.folder / "page.html")

    def score(self, *flags, ranks=1):
        """Rows of the lines, and the page that was written beside them."""
        launch = [] if ranks == 1 else ["launch", "--nproc", ranks, "--max-restarts", 0, "--"]
        self.wmtp.run(*launch, "score", *flags, "--out", "lines.jsonl", "--html", "page.html", cwd=self.folder)
        lines = [json.loads(line) for line in (self.folder / "lines.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == "score"], Page(self.folder / "page.html")


@pytest.fixture(scope="module")
def place(wmtp, tmp_path_factory):
    return Place(wmtp, tmp_path_factory.mktemp("pages"))


def test_every_token_of_a_sequence_stands_on_the_page_once(place):
    said, page = place.inspect(place.config(dataset={"max_length": 200}), "--rows", "0,7,33", "--weights")
    page.assert_is_inert()
    assert [[token.id for token in page.tokens(i)] for i in range(3)] == [shown["ids"] for shown in said["sequences"]]
    for row, shown in enumerate(said["sequences"]):
        marks = ["t" in token.classes for token in page.tokens(row)]
        assert marks == [i >= max(1, shown["prompt_len"]) for i in range(len(shown["ids"]))]
        marked = [cells[2] for cells in page.tables[row][1:]]
        assert [text == "all heads" for text in marked] == marks
        given = json.loads((place.folder / "train.jsonl").read_text().splitlines()[(0, 7, 33)[row]])
        text = "".join(token.text for token in page.tokens(row)).replace("⏎", "")
        assert given["instruction"] in text and text.endswith(given["output"] + "</s>")


def laid_out(lengths, pad):
    """Tokens of the batches of consecutive places."""
    groups = [lengths[i:i + BATCH] for i in range(0, len(lengths), BATCH)]
    return sum(len(group) * max(group) if pad else sum(group) for group in groups)


def test_padding_is_that_of_the_batches_as_they_are_laid_out(place):
    config = place.config(dataset={"packing": False})
    lengths = [len(shown["ids"]) for shown in place.inspect(config, "--sample", ROWS)[0]["sequences"]]
    said, page = place.inspect(config, "--stats", "--step", 3)
    ahead = said["outlook"]
    assert ahead["packed"]["tokens"] == sum(lengths) and ahead["padded"]["tokens"] == laid_out(lengths, pad=True)
    assert ahead["padded"]["padding"] == laid_out(lengths, pad=True) - sum(lengths) > 0
    assert ahead["targets"] + ahead["prompt"] == sum(lengths) and ahead["steps"] == 2 * ROWS // BATCH
    for shown in said["sequences"]:
        assert len(shown["ids"]) + shown["padding"] == max(lengths[3 * BATCH:4 * BATCH])
    pads = [token.text for row in page.rows for token in row if "pad" in token.classes]
    assert pads == [f"{shown['padding']} padding" for shown in said["sequences"] if shown["padding"]]
    saved = laid_out(lengths, pad=True) - sum(lengths)
    assert f"Packing computes {saved} tokens less" in page.html and any(f"packed {sum(lengths)}" in line for line in said["lines"])
    cut = said["stats"]["truncated_rows"]["correct"] + said["stats"]["truncated_rows"]["incorrect"]
    assert cut > 0 and f'title="cut: {cut} (' in page.html and "dataset.truncate right" in page.html


def test_packed_batches_end_with_their_filler(place):
    said, _ = place.inspect(place.config(dataset={"packing": True, "pack_multiple": 64}), "--step", 0)
    tokens = sum(len(shown["ids"]) + shown["padding"] for shown in said["sequences"])
    assert tokens % 64 == 0 and [shown["padding"] > 0 for shown in said["sequences"]] == [False] * (BATCH - 1) + [True]


def test_the_curriculum_is_what_the_sampler_draws(place):
    config = place.config(data_sampling={"n_samples": 16, "difficulty_bins": BINS, "curriculum_learning": True,
                                         "curriculum_schedule": SCHEDULE})
    said, page = place.inspect(config, "--stats")
    phases = said["outlook"]["curriculum"]["phases"]
    assert [(p["epoch"], p["first_step"], p["last_step"]) for p in phases] == [(0, 0, 3), (1, 4, 5), (1, 6, 7)]
    drawn = {}
    for epoch in (0, 1):
        shown = place.inspect(config, "--sample", 16, "--epoch", epoch)[0]["sequences"]
        rows = [int(re.match(r"train\.jsonl:(\d+)", sequence["title"])[1]) - 1 for sequence in shown]
        drawn[epoch] = [next(i for i, (low, high) in enumerate(BINS.values()) if low <= place.difficulty[row] <= high) for row in rows]
    for phase in phases:
        first, last = phase["first_step"] - 4 * phase["epoch"], phase["last_step"] - 4 * phase["epoch"]
        bins = drawn[phase["epoch"]][first * BATCH:(last + 1) * BATCH]
        assert phase["drawn"] == [bins.count(i) for i in range(3)] and phase["samples"] == len(bins)
    table = next(table for table in page.tables if table[0][:3] == ["epoch", "steps", "samples"])
    assert table[0][3:] == list(BINS)
    assert [list(map(int, cells[3:])) for cells in table[1:]] == [phase["drawn"] for phase in phases]


def test_rows_that_say_the_same_are_counted(place):
    lines = (place.folder / "train.jsonl").read_text().splitlines(keepends=True)[:5]
    (place.folder / "twice.jsonl").write_text("".join([*lines, lines[1], lines[3], lines[1]]))
    said, page = place.inspect(place.config(dataset={"train": "twice.jsonl"}), "--stats")
    distinct = len({(row["instruction"], row["output"]) for row in map(json.loads, lines)})
    assert said["outlook"]["repeated_rows"] == 8 - distinct
    assert "as an earlier one" in page.html and "twice.jsonl:6 as twice.jsonl:2" in page.html


def mean_nll(row):
    found = [nll for nll in row["nll"][0] if nll is not None]
    return sum(found) / len(found)


def check_tokens(row, tokens):
    """Ids in order; numbers and shades at the token that is predicted, the darker the more it costs."""
    assert [token.id for token in tokens] == row["ids"]
    for head, losses in enumerate(row["nll"]):
        by_token = {i + head + 1: nll for i, nll in enumerate(losses) if nll is not None}
        assert {i for i, token in enumerate(tokens) if f"nll-{head + 1}" in token.shades} == set(by_token)
        for i, nll in by_token.items():
            assert tokens[i].number(f"loss of head {head + 1}") == pytest.approx(nll, rel=1e-3)
    assert all("p" in token.classes for i, token in enumerate(tokens) if i == 0 or row["nll"][0][i - 1] is None)


def check_shades(rows, page):
    """They follow the numbers along the scale that the page names, which holds 98 of 100 losses."""
    low, high = map(float, re.search(r'loss of head 1: ([\d.]+) <span class="ramp"></span> ([\d.]+)', page.html).groups())
    losses = [nll for row in rows for head in row["nll"] for nll in head if nll is not None]
    assert sum(low <= nll <= high for nll in losses) >= 0.98 * len(losses)
    seen = set()
    for token in (token for tokens in page.rows for token in tokens if "nll-1" in token.shades):
        share = (token.number("loss of head 1") - low) / (high - low)
        assert token.shades["nll-1"] == pytest.approx(min(max(share, 0), 1), abs=0.006)  # two digits, of numbers of four
        seen.add(token.shades["nll-1"])
    assert len(seen) > 10


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_costliest_rows_come_first_with_their_numbers(place, ranks):
    rows, page = place.score("--config", place.config(), "--html-rows", 7, ranks=ranks)
    page.assert_is_inert()
    expected = sorted(rows, key=lambda row: (-mean_nll(row), row["row"]))[:7]
    assert [int(re.match(r"row (\d+)", title)[1]) for title in page.titles] == [row["row"] for row in expected]
    assert f"7 of {ROWS} rows stand here" in page.html and f"{ROWS - 7} are left out" in page.html
    for row, tokens in zip(expected, page.rows):
        check_tokens(row, tokens)
    check_shades(rows, page)
    heads = page.tables[0]
    assert heads[0] == ["head", "targets", "mean nll", "perplexity"] and len(heads) == 1 + len(rows[0]["nll"])
    for head, cells in enumerate(heads[1:]):
        found = [nll for row in rows for nll in row["nll"][head] if nll is not None]
        assert int(cells[1]) == len(found) and float(cells[2]) == pytest.approx(sum(found) / len(found), rel=1e-3)


def test_weights_and_values_colour_the_tokens_too(place):
    rows, page = place.score("--config", place.config(), "--weights", "--step", 2)
    for row, title in zip(sorted(rows, key=lambda row: (-mean_nll(row), rows.index(row))), page.titles):
        assert title.startswith(f"row {row['row']}, micro-batch 1 of rank 0:")
    assert all(token.number("weight") == 1 for tokens in page.rows for token in tokens if "weight" in token.shades)
    rows, page = place.score("--config", place.config(stage="critic"), "--values")
    assert len(page.rows) == 50 and [title.split(":")[0] for title in page.titles] == [f"row {row['row']}" for row in rows[:50]]
    for row, tokens in zip(rows, page.rows):
        assert [token.number("value") for token in tokens] == pytest.approx(row["value"], rel=1e-3, abs=1e-6)
    assert "nll-1" not in page.html and 'id="value"' in page.html


def test_a_page_appears_on_success_only_and_takes_the_place_of_lines(place):
    shutil.copy(place.folder / "train.jsonl", place.folder / "bad.jsonl")
    with (place.folder / "bad.jsonl").open("a") as file:
        file.write('{"instruction": "a", "output": 7}\n')
    config, page = place.config(), place.folder / "alone.html"
    place.wmtp.error("score", "--config", config, "--data", "bad.jsonl", "--html", page, code=65, cwd=place.folder)
    assert not page.exists()
    said = place.wmtp.run("score", "--config", config, "--heads", 1, "--html", page, cwd=place.folder).stdout
    assert said.count("\n") == 1 and said.endswith(f"written to {page}\n") and len(Page(page).rows) == 50
