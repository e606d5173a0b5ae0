"""`wmtp init`: what it writes validates and trains for every stage and form of data, tells its facts, and asks on a terminal."""
import json
import os
import pty
import select
import subprocess
import time

import pytest
from test_hostile_text import HOSTILE, RAW


class Desk:
    """A working folder with the demo corpus in every form that data may have."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder = wmtp, folder
        self.run("data", "demo", "--out", "demo", "--rows", "120")
        rows = [json.loads(line) for line in (folder / "demo/train.jsonl").open()]
        self.write("rows.jsonl", [{**row, "task_id": None} for row in rows])
        self.write("pages.jsonl", [{"id": str(i), "body": row["output"]} for i, row in enumerate(rows)])
        self.run("data", "tokenize", "demo/validation.jsonl", "--tokenizer", "demo", "--template", "chatml", "--out", ".")

    def write(self, name, rows):
        lines = [json.dumps({key: value for key, value in row.items() if value is not None}) for row in rows]
        (self.folder / name).write_text("\n".join(lines) + "\n")
        return name

    def run(self, *words, **options):
        return self.wmtp.run(*words, cwd=self.folder, **options)

    def init(self, stage, *flags):
        """The values of a configuration that was written to <stage>.yaml: {key: {value, fact}}."""
        words = ["init", stage, *flags, "--out", f"{stage}.yaml", "--force"]
        return self.wmtp.json(*words, cwd=self.folder)["values"]

    def trains(self, stage, name, export=False):
        """<stage>.yaml is valid as it is, and its run makes two steps."""
        assert self.run("validate", "--config", f"{stage}.yaml").stdout.startswith(f"OK {stage} ")
        changes = [f"experiment.name={name}", "training.log_interval=1", "runtime.threads=1"]
        if not export:
            changes += ["checkpoint.export_on_finish=none", "checkpoint.save_best=false", "checkpoint.save_final=false"]
        words = [word for one in changes for word in ("--override", one)]
        self.run("train", "--config", f"{stage}.yaml", "--max-steps", "2", *words)
        points = [json.loads(line) for line in (self.folder / f"runs/{name}/metrics.jsonl").open()]
        assert sum("train/loss" in point for point in points) == 2


@pytest.fixture(scope="module")
def desk(wmtp, tmp_path_factory):
    return Desk(wmtp, tmp_path_factory.mktemp("init"))


def test_every_stage_and_form_of_data_validates_and_trains(desk):
    values = desk.init("baseline", "--preset", "micro", "--data", "demo/train.jsonl")
    assert values["dataset.prompt_template"]["value"] == "chatml"
    assert values["dataset.validation"]["value"] == "demo/validation.jsonl"
    assert values["data_sampling.balance_correct"]["fact"] == "60 correct and 60 incorrect in 120 rows."
    desk.trains("baseline", "base", export=True)

    values = desk.init("critic", "--model", "runs/base/final", "--data", "demo/train.jsonl")
    assert values["data_sampling.use_pairwise"]["fact"].startswith("60 pairs of a correct and an incorrect row")
    assert values["training.backbone_frozen"]["value"] is True
    desk.trains("critic", "judge", export=True)

    values = desk.init("verifiable", "--model", "runs/base/final", "--data", "rows.jsonl")
    assert values["training.value.source"]["value"] == "joint" and "models.value_model.checkpoint_path" not in values
    desk.trains("verifiable", "joint")

    values = desk.init("verifiable", "--model", "runs/base", "--data", "demo/train.jsonl", "--critic", "runs/judge/final")
    assert values["training.td.mode"]["value"] == "gae"
    desk.trains("verifiable", "judged")

    values = desk.init("rho1", "--preset", "micro", "--tokenizer", "demo", "--data", "pages.jsonl", "--reference",
                       "runs/base/final")
    assert values["dataset.text.column"]["value"] == "body"
    desk.trains("rho1", "compared")

    values = desk.init("baseline", "--model", "runs/base/final", "--data", "demo/text.txt")
    assert values["dataset.format"]["value"] == "text" and "blocks" in values["dataset.max_length"]["fact"]
    desk.trains("baseline", "text")

    [tokens] = [path.name for path in desk.folder.glob("*.wtok")]
    values = desk.init("baseline", "--model", "runs/base/final", "--data", tokens)
    assert values["dataset.format"]["value"] == "tokens" and "99 % of 12 rows" in values["dataset.max_length"]["fact"]
    desk.trains("baseline", "tokens")


def test_a_batch_is_halved_until_it_fits_where_this_machine_can_judge(desk):
    def batch(name, gib):
        (desk.folder / name).mkdir()
        (desk.folder / name / "defaults.yaml").write_text(f"runtime: {{memory_limit_gib: {gib}}}\n")
        words = ["init", "baseline", "--preset", "micro", "--data", "demo/train.jsonl", "--out", f"{name}/run.yaml"]
        done = desk.run("--json", *words)
        values = json.loads(done.stdout)["values"]
        return values["training.batch_size"], values["training.gradient_accumulation_steps"]["value"], done.stderr
    [large, small, none] = [batch("large", 1), batch("small", 0.045), batch("none", 0.001)]
    assert large[0]["value"] > small[0]["value"], (large, small)
    assert large[0]["value"] * large[1] == small[0]["value"] * small[1] and not large[2] and not small[2]
    assert "of the 0.04 GiB here (cpu)" in small[0]["fact"]
    assert none[0]["value"] == large[0]["value"] and "does not fit into the 0.00 GiB" in none[2]
    assert "not held against the memory of a GPU" in none[0]["fact"]


def test_rows_without_problems_are_drawn_by_class(desk):
    values = desk.init("critic", "--preset", "micro", "--tokenizer", "demo", "--data", "rows.jsonl")
    assert values["data_sampling.correct_ratio"]["value"] == 0.5 and "data_sampling.use_pairwise" not in values
    assert desk.run("validate", "--config", "critic.yaml").stdout.startswith("OK critic ")


def test_names_of_columns_reach_comments_escaped(desk):
    row = {"instruction": "a", "output": "b", HOSTILE + "\n": 1}
    desk.write("hostile.jsonl", [row] * 3)
    (desk.folder / "wmtp.schema.json").write_text("{}")
    done = desk.run("init", "baseline", "--preset", "micro", "--tokenizer", "demo", "--data", "hostile.jsonl", "--out", "h.yaml")
    text = (desk.folder / "h.yaml").read_text()
    assert not RAW.search(text + done.stdout + done.stderr) and "\"evil\\u001b[31m" in text
    assert text.startswith("# yaml-language-server: $schema=wmtp.schema.json\n")
    assert desk.run("validate", "--config", "h.yaml").stdout.startswith("OK baseline ")


@pytest.mark.parametrize("words,code,said", [
    ("", 78, "missing: STAGE, --model (or --preset), --data;"),
    ("rho1 --preset micro", 78, "missing: --data, --reference;"),
    ("baseline --preset micro --data rows.jsonl", 78, "missing: --tokenizer; micro has none, and none lies beside rows.jsonl"),
    ("baseline --model demo --data rows.jsonl", 78, "is this a model folder?"),
    ("baseline --model mirco --data rows.jsonl", 78, "did you mean the preset micro?"),
    ("critic --preset micro --data demo/text.txt", 78, "demo/text.txt is text, which has none; it needs rows"),
    ("baseline --preset micro --data demo/tokenizer.json", 65, "is JSON over several lines"),
    ("baseline --preset micro --data demo/train.jsonl --reference x", 78, "--reference is for stage rho1"),
    ("baseline --preset micro --data demo/train.jsonl --out rows.jsonl", 78, "rows.jsonl is there already; --force"),
    ("baseline --preset micro --data demo/train.jsonl --out no/run.yaml", 78, "there is no folder no"),
])
def test_errors_say_what_to_do(desk, words, code, said):
    before = sorted(desk.folder.iterdir())
    done = desk.run("init", *words.split(), check=False)
    assert done.returncode == code and said in done.stderr and not done.stdout, done.stdout + done.stderr
    assert sorted(desk.folder.iterdir()) == before


def test_the_list_has_stages_presets_and_shipped_files(wmtp):
    from training_runs import CONFIGS
    listed = wmtp.json("init", "--list", cwd=CONFIGS.parent)
    assert [stage["name"] for stage in listed["stages"]] == ["baseline", "critic", "verifiable", "rho1"]
    assert "micro" in [preset["name"] for preset in listed["presets"]]
    shipped = {file["name"]: file["text"] for file in listed["configurations"]}
    assert set(shipped) == {str(path.relative_to(CONFIGS)) for path in CONFIGS.rglob("*.yaml")} and all(shipped.values())
    assert "rho1/rho1.yaml" in wmtp.run("init", "--list", cwd=CONFIGS.parent).stdout


class Conversation:
    """`wmtp` on a terminal of its own; each answer is typed when its question has been shown."""

    def __init__(self, desk, words, answers):
        main, other = pty.openpty()
        process = subprocess.Popen([str(desk.wmtp.binary), *words], stdin=other, stdout=other, stderr=other,
                                   cwd=desk.folder, start_new_session=True)
        os.close(other)
        self.text, seen, end = "", 0, time.monotonic() + 60
        while time.monotonic() < end:
            ready, _, _ = select.select([main], [], [], 1)
            try:
                got = os.read(main, 65536) if ready else b""
            except OSError:  # the last process that had it is gone
                break
            self.text += got.decode(errors="replace")
            if answers and answers[0][0] in self.text[seen:]:
                seen = len(self.text)
                os.write(main, answers.pop(0)[1].encode())
        os.close(main)
        self.code = process.wait(timeout=10)
        assert not answers, (answers, self.text)


def test_a_terminal_is_asked_for_what_is_missing(desk):
    asked = Conversation(desk, ["init"], [
        ("stage (baseline, critic, verifiable, rho1) [baseline]: ", "crtic\n"),
        ("did you mean critic?\r\nstage", "critic\n"),
        ("model folder, or a preset [micro]: ", "\n"),
        ("data file [demo/train.jsonl]: ", "demo/train.jsonl\n"),
        ("name of the run [critic-demo]: ", "mine\n"),
        ("file to write (- for none) [mine.yaml]: ", "\n")])
    assert asked.code == 0 and "next: wmtp validate --config mine.yaml" in asked.text, asked.text
    assert "  name: mine\n  # What" in (desk.folder / "mine.yaml").read_text()
    assert desk.run("validate", "--config", "mine.yaml").stdout.startswith("OK critic ")
    ended = Conversation(desk, ["init", "baseline", "--preset", "micro"], [("data file", "\x04")])
    assert ended.code == 78 and "no answer: data file" in ended.text
