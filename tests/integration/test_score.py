"""`score --config`: what a stage makes of its rows, held against the run's own first step by arithmetic done here."""
import json
import math
import shutil

import pytest
import yaml

ROWS = 22  # of 2 x 2 x 2 a step on two ranks: the last micro-batch of the file is a short one
NEAR = {"rel": 2e-5, "abs": 2e-6}  # sums of some hundred fp32 numbers
STAGES = {
    "baseline": {},
    "critic": {"training": {"backbone_frozen": True, "value_head": {"learning_rate": 0.05},
                            "value_loss": {"type": "mse", "bias_init": 0.5}}},
    "verifiable": {"models": {"value_model": {"checkpoint_path": "value"}}, "training": {"value": {"source": "model"}}},
    "joint": {"training": {"value": {"source": "joint", "init_from": "value"}}},
    "rho1": {"models": {"reference": {"path": "ref"}}, "training": {"rho1": {"k_percent": 0.6}}},
}


def merged(base, more):
    out = dict(base)
    for key, value in more.items():
        out[key] = merged(out.get(key, {}), value) if isinstance(value, dict) else value
    return out


def config(stage, more=()):
    base = {
        "experiment": {"name": stage, "stage": "verifiable" if stage == "joint" else stage},
        "models": {"policy": {"path": "micro", "name": "tiny", "tokenizer_path": "demo", "init": "random",
                              "dtype": "fp32",
                              "params": {"dim": 32, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "head_dim": 16,
                                         "ffn_dim": 48}}},
        "dataset": {"train": "train.jsonl", "validation": "validation.jsonl", "max_length": 96},
        "training": {"batch_size": 2, "gradient_accumulation_steps": 2, "n_epochs": 1, "max_steps": 1,
                     "learning_rate": 1e-3, "log_interval": 1},
        "checkpoint": {"save_checkpoint_every": None, "save_final": False, "save_best": False,
                       "export_on_finish": "none"},
        "runtime": {"device": "cpu", "cache_dir": "cache", "threads": 1},
    }
    return merged(merged(base, STAGES[stage]), dict(more))


class Place:
    """A folder with data, a reference model and a critic, in which runs are made and scored."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, folder
        wmtp.run("data", "demo", "--out", "demo", "--rows", 100, cwd=folder)
        for name, count in (("train", ROWS), ("validation", 3)):
            lines = (folder / f"demo/{name}.jsonl").read_text().splitlines(keepends=True)
            (folder / f"{name}.jsonl").write_text("".join(lines[:count]))
        rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        self.reward = [float(row["is_correct"]) for row in rows]
        assert 0 < sum(self.reward) < ROWS
        few = {"training": {"max_steps": 2, "learning_rate": 0.01}, "checkpoint": {"export_on_finish": "hf"}}
        for name, stage in (("ref", "baseline"), ("value", "critic")):
            self.train(f"{name}-run", config(stage, few))
            shutil.copytree(folder / f"{name}-run/final", folder / name)
        self.write("mask", config("baseline"))
        self.first_target = {row["row"]: next(i for i, nll in enumerate(row["nll"][0]) if nll is not None) + 1
                             for row in self.score("mask")[1]}

    def write(self, name, settings):
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(settings))

    def command(self, ranks, *words, **options):
        launch = [] if ranks == 1 else ["launch", "--nproc", ranks, "--max-restarts", 0, "--"]
        return self.wmtp.run(*launch, *words, cwd=self.folder, timeout=600, **options)

    def train(self, name, settings, ranks=1):
        self.write(name, settings)
        done = self.command(ranks, "train", "--config", f"{name}.yaml", "--run-dir", name)
        return done.stderr + done.stdout

    def metrics(self, name, step=1):
        points = [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        return next(point for point in points if point.get("step") == step and "train/loss" in point)

    def score(self, name, *flags, ranks=1):
        """Header, rows and result of `score --config NAME.yaml`."""
        self.command(ranks, "score", "--config", f"{name}.yaml", *flags, "--out", f"{name}.scores")
        lines = [json.loads(line) for line in (self.folder / f"{name}.scores").read_text().splitlines()]
        assert [line["type"] for line in lines] == ["header"] + ["score"] * (len(lines) - 2) + ["result"]
        return lines[0], lines[1:-1], lines[-1]

    def response(self, row):
        """The places of its response, from the tokens' side."""
        return range(self.first_target[row["row"]], len(row["ids"]))


@pytest.fixture(scope="module")
def place(wmtp, tmp_path_factory):
    return Place(wmtp, tmp_path_factory.mktemp("score"))


def pairs(rows, head):
    """(nll, weight) of every target of a head."""
    for row in rows:
        for nll, weight in zip(row["nll"][head], row["weight"][head]):
            assert (nll is None) == (weight is None)
            if nll is not None:
                yield nll, weight


def heads_of(rows):
    return range(len(rows[0]["nll"]))


def mean(numbers):
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers)


def std(numbers):
    middle = mean(numbers)
    return math.sqrt(math.fsum((x - middle) ** 2 for x in numbers) / (len(numbers) - 1))


def losses(rows, normalization):
    """Weighted and unweighted loss of docs/stages.md."""
    weighted, plain = [], []
    for head in heads_of(rows):
        found = list(pairs(rows, head))
        norm = len(found) if normalization == "tokens" else math.fsum(w for _, w in found)
        weighted.append(math.fsum(w * nll for nll, w in found) / norm)
        plain.append(mean(nll for nll, _ in found))
    return mean(weighted), mean(plain)


def check_weight_statistics(weights, run):
    total = math.fsum(weights)
    entropy = -math.fsum(w / total * math.log(w / total) for w in weights if w > 0) / math.log(len(weights))
    expected = {"mean": mean(weights), "std": std(weights), "min": min(weights), "max": max(weights),
                "entropy": entropy}
    for name, value in expected.items():
        assert run[f"weight/{name}"] == pytest.approx(value, **NEAR), name


def check_rows_of_step(header, rows, ranks, step=1):
    assert header["order"] == "step" and header["step"] == step and header["ranks"] == ranks
    where = [(row["micro_batch"], row["rank"]) for row in rows]
    assert where == [(j, r) for j in range(2) for r in range(ranks) for _ in range(2)]
    assert len({row["row"] for row in rows}) == len(rows)


def td_errors(row, place, td):
    """x of every response token, by the formulas of docs/stages.md."""
    v, reward, places = row["value"], place.reward[row["row"]], place.response(row)
    if td["mode"] == "td0":
        return [reward - v[t] if t == places[-1] else v[t] - v[t - 1] for t in places]
    advantage, found = 0.0, []
    for t in reversed(places):
        advantage = v[t] - v[t - 1] + 0.95 * advantage
        found.append(advantage)
    return found[::-1]


def expected_weights(rows, place, td):
    """By row; and every x."""
    x = {row["row"]: td_errors(row, place, td) for row in rows}
    scope = {row["row"]: (row["micro_batch"], None if td.get("scope") == "ranks" else row["rank"]) for row in rows}
    beta, top = (0.9, 5) if td["mode"] == "td0" else (1, 3)
    weights = {}
    for number, found in x.items():
        together = [y for other, ys in x.items() if scope[other] == scope[number] for y in ys]
        middle, spread = (mean(together), std(together)) if td["whiten"] == "batch" else (0, 1)
        weights[number] = [min(max(math.exp((y - middle) / (spread + 1e-8) / beta), 0.1), top) for y in found]
    return weights, [y for found in x.values() for y in found]


@pytest.mark.parametrize("ranks", [1, 2])
def test_baseline(place, ranks):
    name = f"baseline-{ranks}"
    place.train(name, config("baseline"), ranks)
    header, rows, result = place.score(name, "--weights", ranks=ranks)
    check_rows_of_step(header, rows, ranks)
    assert all(weight == 1 for head in heads_of(rows) for _, weight in pairs(rows, head))
    run = place.metrics(name)
    for head in heads_of(rows):
        assert run[f"train/head{head}_loss"] == pytest.approx(mean(nll for nll, _ in pairs(rows, head)), **NEAR)
    assert run["train/loss"] == pytest.approx(losses(rows, "tokens")[0], **NEAR)
    assert result["nll_mean"] == pytest.approx(run["train/head0_loss"], **NEAR)


@pytest.mark.parametrize("ranks", [1, 2])
def test_critic(place, ranks):
    """The first step has the head's bias for every value; the second, from the checkpoint before it, its own."""
    name = f"critic-{ranks}"
    place.train(name, config("critic", {"training": {"max_steps": 2}, "checkpoint": {"save_every_steps": 1}}), ranks)
    for step, flags in ((1, []), (2, ["--checkpoint", f"{name}/checkpoints/tiny-1steps"])):
        header, rows, result = place.score(name, "--values", "--step", step, *flags, ranks=ranks)
        check_rows_of_step(header, rows, ranks, step)
        assert result["tokens"] == 0 and all(row["nll"] == [] and "weight" not in row for row in rows)
        assert ({v for row in rows for v in row["value"]} == {0.5}) == (step == 1)
        check_critic(place, rows, place.metrics(name, step))


def check_critic(place, rows, run):
    sides, errors = {0: [], 1: []}, []
    for row in rows:
        values = [row["value"][t] for t in place.response(row)]
        reward = place.reward[row["row"]]
        sides[reward].append(mean(values))
        errors.append(mean((v - reward) ** 2 for v in values))
    assert run["train/loss"] == pytest.approx(mean(errors), **NEAR)
    for side, numbers in (("mean_pos", sides[1]), ("mean_neg", sides[0])):
        assert (f"value/{side}" in run) == bool(numbers)
        if numbers:
            assert run[f"value/{side}"] == pytest.approx(mean(numbers), **NEAR)


VERIFIABLE = [  # stage, ranks, keys of training.td
    ("verifiable", 1, {"mode": "td0", "whiten": "none"}),
    ("verifiable", 1, {"mode": "gae", "whiten": "ema"}),
    ("verifiable", 2, {"mode": "gae", "whiten": "batch"}),
    ("verifiable", 2, {"mode": "gae", "whiten": "batch", "scope": "ranks"}),
    ("verifiable", 2, {"mode": "td0", "whiten": "batch", "control": "shuffled"}),
    ("verifiable", 2, {"mode": "td0", "whiten": "none", "control": "random"}),
    ("joint", 1, {"mode": "td0", "whiten": "batch"}),
    ("joint", 2, {"mode": "gae", "whiten": "ema"}),
]


@pytest.mark.parametrize("case", range(len(VERIFIABLE)), ids=lambda i: "-".join(
    [VERIFIABLE[i][0], str(VERIFIABLE[i][1]), *map(str, VERIFIABLE[i][2].values())]))
def test_verifiable(place, case):
    stage, ranks, td = VERIFIABLE[case]
    name = f"verifiable-{case}"
    place.train(name, config(stage, {"training": {"td": td, "signal_cache": False}}), ranks)
    run = place.metrics(name)
    drawn = td.get("control") == "random"
    header, rows, _ = place.score(name, "--weights", *([] if drawn else ["--values"]), ranks=ranks)
    check_rows_of_step(header, rows, ranks)
    weighted, plain = losses(rows, "tokens")
    assert run["train/weighted_ce_loss"] == pytest.approx(weighted, **NEAR)
    assert run["train/unweighted_ce_loss"] == pytest.approx(plain, **NEAR)
    check_weight_statistics([weight for _, weight in pairs(rows, 0)], run)
    for row in rows:  # one weight a token, whichever head predicts it
        first = row["weight"][0]
        for head, of_head in enumerate(row["weight"]):
            for i, weight in enumerate(of_head):
                assert weight is None or i + head >= len(first) or weight == first[i + head]
    if drawn:
        return
    weights, x = expected_weights(rows, place, td)
    assert run["td/mean"] == pytest.approx(mean(x), **NEAR)
    assert run["td/std"] == pytest.approx(std(x), **NEAR)
    squares = [(row["value"][t] - place.reward[row["row"]]) ** 2 for row in rows for t in place.response(row)]
    assert run["value/mse"] == pytest.approx(mean(squares), **NEAR)
    for row in rows:
        found = [weight for weight in row["weight"][0] if weight is not None]
        expected = weights[row["row"]]
        if td.get("control") == "shuffled":
            assert found != pytest.approx(expected, rel=1e-3)
            found, expected = sorted(found), sorted(expected)
        assert found == pytest.approx(expected, rel=2e-4)  # x is a difference, whitened


@pytest.mark.parametrize("ranks,scope", [(1, "micro_batch"), (2, "micro_batch"), (2, "ranks")])
def test_rho1(place, ranks, scope):
    name = f"rho1-{ranks}-{scope}"
    place.train(name, config("rho1", {"training": {"rho1": {"scope": scope}, "signal_cache": False}}), ranks)
    run = place.metrics(name)
    header, rows, _ = place.score(name, "--weights", ranks=ranks)
    check_rows_of_step(header, rows, ranks)
    weighted, plain = losses(rows, "weights")
    assert run["train/weighted_ce_loss"] == pytest.approx(weighted, **NEAR)
    assert run["train/unweighted_ce_loss"] == pytest.approx(plain, **NEAR)
    check_weight_statistics([weight for head in heads_of(rows) for _, weight in pairs(rows, head)], run)
    for head in heads_of(rows):
        chosen = [weight for _, weight in pairs(rows, head)]
        assert run[f"rho1/head{head}_count"] == sum(chosen)
        assert run[f"rho1/head{head}_ratio"] == pytest.approx(mean(chosen))
    ids = place.folder / f"{name}.ids.jsonl"
    ids.write_text("".join(json.dumps({"ids": row["ids"]}) + "\n" for row in rows))
    reference = place.wmtp.json_lines("score", "--model", "ref", "--data", ids, "--heads", 1, cwd=place.folder)
    scopes = {}
    for row, ref in zip(rows, reference):
        for head in heads_of(rows):
            found = scopes.setdefault((row["micro_batch"], row["rank"] if scope == "micro_batch" else None, head), [])
            found += [(nll - ref["nll"][0][i + head], weight) for i, (nll, weight)
                      in enumerate(zip(row["nll"][head], row["weight"][head])) if nll is not None]
    for (_, _, head), found in scopes.items():
        kept = [excess for excess, weight in found if weight == 1]
        left = [excess for excess, weight in found if weight == 0]
        assert len(kept) + len(left) == len(found)
        assert len(kept) == (len(found) if head == 0 else 1 + (len(found) - 1) * 6 // 10)
        if left:
            assert min(kept) >= max(left) - 1e-5


def test_a_checkpoint_scores_the_step_that_follows_it(place):
    """Weights, value head and tracker are the checkpoint's: the run's second step, from its first checkpoint."""
    two = {"training": {"max_steps": 2, "learning_rate": 0.01, "td": {"mode": "gae", "whiten": "ema"}},
           "checkpoint": {"save_every_steps": 1}}
    place.train("second", config("joint", two))
    run = place.metrics("second", 2)
    _, rows, _ = place.score("second", "--checkpoint", "second/checkpoints/tiny-1steps", "--step", 2, "--weights")
    assert run["train/weighted_ce_loss"] == pytest.approx(losses(rows, "tokens")[0], **NEAR)
    check_weight_statistics([weight for _, weight in pairs(rows, 0)], run)
    _, begun, _ = place.score("second", "--step", 2, "--weights")
    assert [row["row"] for row in begun] == [row["row"] for row in rows]
    assert run["train/weighted_ce_loss"] != pytest.approx(losses(begun, "tokens")[0], rel=1e-3)


@pytest.mark.parametrize("stage,ranks", [("verifiable", 1), ("rho1", 2)])
def test_fills_the_signal_cache(place, stage, ranks):
    name = f"{stage}-filled"
    place.write(name, config(stage, {"runtime": {"cache_dir": f"cache-{stage}"},
                                     "training": {"td": {"mode": "gae"}} if stage == "verifiable" else {}}))
    header, rows, _ = place.score(name, *(["--values"] if stage == "verifiable" else []), ranks=ranks)
    assert header["order"] == "file" and header["batch_size"] == 2 and "step" not in header
    assert [row["row"] for row in rows] == list(range(ROWS))
    said = place.command(1, "train", "--config", f"{name}.yaml", "--run-dir", name)
    assert f"{ROWS} of {ROWS} rows of the training set" in said.stderr + said.stdout
    assert "is not loaded: all it would say is known" in said.stderr + said.stdout
    again = place.score(name, *(["--values"] if stage == "verifiable" else []))[1]
    for row, other in zip(rows, again):
        assert row["nll"][0] == other["nll"][0] and row.get("value") == other.get("value")


ERRORS = [
    (["--config", "mask.yaml", "--model", "ref"], "--model beside --config"),
    (["--config", "mask.yaml", "--adapter", "ref"], "--adapter beside --config"),
    (["--config", "mask.yaml", "--dtype", "fp32"], "--dtype beside --config"),
    (["--config", "mask.yaml", "--values"], "stage baseline has no value function"),
    (["--config", "mask.yaml", "--step", 2], "the run has 1 steps"),
    (["--config", "mask.yaml", "--checkpoint", "value", "--step", 1], "which the configuration's model has"),
    (["--model", "ref", "--data", "train.jsonl", "--weights"], "--weights without --config"),
    (["--model", "ref", "--checkpoint", "ref", "--data", "train.jsonl"], "--model and --checkpoint"),
    (["--checkpoint", "ref"], "--data is needed"),
    (["--data", "train.jsonl"], "no model"),
]


@pytest.mark.parametrize("flags,fact", ERRORS, ids=[fact for _, fact in ERRORS])
def test_what_contradicts_itself_is_named(place, flags, fact):
    assert fact in place.wmtp.error("score", *flags, code=78, cwd=place.folder)["message"]
