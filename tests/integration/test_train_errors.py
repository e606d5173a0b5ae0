"""Training runs that cannot go on, or are told to stop: what they say, and with which code they end."""
import json
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
FEW = ("training.max_steps=3", "training.eval_every_steps=3", "training.log_interval=1", "training.eval_at_start=false")


def rows(workshop, name, change):
    """A copy of the first training rows, each through `change`."""
    lines = (workshop.folder / "demo/train.jsonl").read_text().splitlines()[:40]
    path = workshop.folder / name
    path.write_text("".join(json.dumps(change(json.loads(line))) + "\n" for line in lines))
    return path


def broken(workshop, stage, name, *overrides, code):
    """stderr of a run that must end with `code`, say why, and train nothing."""
    run = workshop.train(f"micro/{stage}.yaml", name, *FEW, *overrides, code=code)
    assert "Loss:" not in run.stdout
    assert not run.final.exists()
    return run.stderr


# --- numbers that make no sense -------------------------------------------------------------------------------------

@pytest.mark.parametrize("stage,override,said", [
    ("verifiable", "training.td.beta=0", "training.td.beta"),
    ("verifiable", "training.td.clip_min=4", "clip_min"),
    ("rho1", "training.rho1.k_percent=0", "training.rho1.k_percent"),
    ("rho1", "training.rho1.k_percent=1.01", "training.rho1.k_percent"),
])
def test_a_value_out_of_range_is_a_configuration_error(workshop, stage, override, said):
    assert said in broken(workshop, stage, "range", override, code=78)


def test_selecting_everything_is_the_baseline(workshop):
    same = ("data_sampling.correct_ratio=1.0", *FEW)
    everything = workshop.train("micro/rho1.yaml", "everything", "training.rho1.k_percent=1", *same)
    baseline = workshop.train("micro/baseline.yaml", "plain", "training.lr_scheduler.type=constant",
                              "training.lr_scheduler.warmup_ratio=0", *same)
    assert everything.values("train/selection_ratio") == [1.0] * 3
    assert everything.values("train/loss") == pytest.approx(baseline.values("train/loss"), rel=1e-5)
    assert everything.values("val/loss") == pytest.approx(baseline.values("val/loss"), rel=1e-5)


# --- data -----------------------------------------------------------------------------------------------------------

def test_an_empty_validation_file(workshop):
    (workshop.folder / "empty.jsonl").write_text("")
    assert "empty.jsonl holds no row" in broken(workshop, "baseline", "empty", "dataset.validation=empty.jsonl", code=65)


def test_without_a_validation_set_nothing_is_validated(workshop):
    run = workshop.train("micro/baseline.yaml", "no-validation", "dataset.validation=null", *FEW)
    assert not [name for name in run.names if name.startswith("val/")]
    assert run.summary.get("best") is None and run.final.exists()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_rows_without_a_target(workshop, split):
    path = rows(workshop, "silent.jsonl", lambda row: {**row, "output": ""})
    assert "no samples: 0 candidate rows" in broken(workshop, "baseline", "silent", f"dataset.{split}={path}", "dataset.append_eos=false", code=65)


def test_labels_that_truncation_cuts_off(workshop):
    assert "no samples" in broken(workshop, "baseline", "cut", "dataset.max_length=16", "dataset.truncate=right", code=65)


def unlabelled(workshop, first=0):
    """Rows of which those from `first` on say nothing about being right."""
    numbers = iter(range(1000))
    bare = lambda row: {k: v for k, v in row.items() if k not in ("is_correct", "task_id")}
    return rows(workshop, f"unlabelled-{first}.jsonl", lambda row: bare(row) if next(numbers) >= first else row)


@pytest.mark.parametrize("stage,override", [
    ("critic", "data_sampling.use_pairwise=false"), ("critic", "data_sampling.use_pairwise=true"),
    ("verifiable", "data_sampling.balance_correct=false"), ("baseline", "data_sampling.balance_correct=true"),
    ("rho1", "data_sampling.balance_correct=true")])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_row_without_a_label_is_refused_where_something_reads_it(workshop, stage, override, split):
    text = broken(workshop, stage, "unlabelled", f"dataset.{split}={unlabelled(workshop, 7)}", override, code=65)
    assert "unlabelled-7.jsonl:8: a row without is_correct" in text and "33 of 40 rows" in text


@pytest.mark.parametrize("stage", ["baseline", "rho1"])
def test_labels_are_not_needed_where_nothing_reads_them(workshop, stage):
    workshop.train(f"micro/{stage}.yaml", f"unlabelled-{stage}", *FEW, f"dataset.train={unlabelled(workshop)}",
                   "data_sampling.balance_correct=false")


@pytest.mark.parametrize("ratio,correct,incorrect", [(1.0, 20, 0), (0.0, 0, 20), (0.5, 20, 20), (0.8, 20, 5)])
def test_classes_are_balanced_without_a_number_of_samples(workshop, ratio, correct, incorrect):
    path = rows(workshop, "labelled.jsonl", lambda row: row)
    overrides = [f"--override=dataset.train={path}", "--override=data_sampling.balance_correct=true",
                 f"--override=data_sampling.correct_ratio={ratio}"]
    stats = workshop.wmtp.json("data", "inspect", "--config", ROOT / "configs/micro/baseline.yaml", *overrides, "--stats",
                               cwd=workshop.folder)["stats"]
    assert (stats["correct"], stats["incorrect"]) == (correct, incorrect)


def test_no_row_of_the_only_class(workshop):
    path = rows(workshop, "all-wrong.jsonl", lambda row: {**row, "is_correct": False, "task_id": "x"})
    text = broken(workshop, "baseline", "all-wrong", f"dataset.train={path}", code=65)
    assert "40 not of the class that data_sampling.correct_ratio 1 asks for" in text


# --- models that do not belong together -----------------------------------------------------------------------------

def test_a_reference_with_another_vocabulary(workshop):
    other = workshop.folder / "other-words"
    workshop.wmtp.run("data", "demo", "--out", other, "--seed", 7, "--rows", 40)
    workshop.train("micro/baseline.yaml", "foreign", f"models.policy.tokenizer_path={other}", *FEW)
    text = broken(workshop, "rho1", "vocabulary", "models.reference.path=runs/foreign/final", code=78)
    assert "models.reference.path" in text and "tokenizer" in text


def test_a_reference_with_fewer_words(workshop):
    # The same tokenizer, but a table that does not hold all its words.
    run = workshop.train("micro/baseline.yaml", "short", "models.policy.params={vocab_size: 300}", *FEW[1:],
                         "training.max_steps=1", code=78)
    assert "tokens, the model 300" in run.stderr


def test_a_critic_of_another_width(workshop):
    narrow = ("models.policy.path=micro", "models.policy.init=random", "models.policy.tokenizer_path=demo",
              "models.policy.params={dim: 64, n_heads: 2, n_kv_heads: 1, head_dim: 32, ffn_dim: 176}")
    workshop.train("micro/critic.yaml", "narrow", *narrow, *FEW)
    joint = ("training.value.source=joint", "models.value_model.checkpoint_path=null")
    text = broken(workshop, "verifiable", "width", *joint, "training.value.init_from=runs/narrow/final", code=78)
    assert "width 64" in text and "width 128" in text
    # A value model has a backbone of its own: its width is nobody's business.
    workshop.train("micro/verifiable.yaml", "own-width", "models.value_model.checkpoint_path=runs/narrow/final", *FEW)


def test_a_folder_without_value_head(workshop):
    text = broken(workshop, "verifiable", "headless", "models.value_model.checkpoint_path=runs/micro-baseline/final",
                  code=78)
    assert "value head" in text


def test_values_that_are_no_numbers(workshop):
    sick = workshop.folder / "sick"
    sick.mkdir()
    for path in workshop.critic.final.iterdir():
        (sick / path.name).write_bytes(path.read_bytes())
    tensors = load_file(sick / "value_head.safetensors")
    name = next(name for name in tensors if name.endswith("weight"))
    tensors[name] = torch.full_like(tensors[name], float("nan"))
    save_file(tensors, sick / "value_head.safetensors", metadata={"format": "pt"})
    run = workshop.train("micro/verifiable.yaml", "sick", "models.value_model.checkpoint_path=sick",
                         "training.max_bad_steps=3", "training.eval_at_start=false", "training.max_steps=6", code=17)
    assert "3 steps in a row were not finite" in run.stderr and "samples" in run.stderr


# --- stop requests --------------------------------------------------------------------------------------------------

def loss_lines(path):
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("request_", [signal.SIGTERM, signal.SIGINT, "file"], ids=["SIGTERM", "SIGINT", "file"])
def test_a_stop_request_ends_the_run(workshop, ranks, request_):
    name = f"stop-{ranks}-{getattr(request_, 'name', request_)}"
    process = workshop.start("micro/baseline.yaml", name, "training.max_steps=5000", "training.n_epochs=500",
                             "training.log_interval=1", "training.eval_every_steps=5000", ranks=ranks)
    folder = workshop.folder / "runs" / name
    end = time.monotonic() + 120
    while loss_lines(folder / "metrics.jsonl") < 3:
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.05)
    if request_ == "file":
        (folder / "STOP").touch()
    else:
        process.send_signal(request_)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 80, stderr  # stopped and saved
    assert "Loss:" in stdout
    assert json.loads((folder / "summary.json").read_text())["status"] == "stopped"
    assert not (folder / "final").exists()


# --- what is printed ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("stage", ["baseline", "critic", "verifiable", "rho1"])
def test_json_output_is_json_lines_only(workshop, stage):
    run = workshop.train(f"micro/{stage}.yaml", f"json-{stage}", *FEW, flags=["--json"])
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds.count("step") == 3 and kinds.count("eval") == 1 and kinds.count("result") == 1, kinds
    assert all("ts" in line for line in lines)
    assert [line["step"] for line in lines if line["type"] == "step"] == [1, 2, 3]


def test_errors_in_json(workshop):
    run = workshop.train("micro/rho1.yaml", "json-error", "models.reference.path=nowhere", flags=["--json"], code=78)
    errors = [json.loads(line) for line in run.stdout.splitlines()]
    assert [error["type"] for error in errors] == ["error"] and errors[0]["code"] == 78


@pytest.mark.parametrize("ranks", [1, 2])
def test_plain_output_has_loss_lines(workshop, ranks):
    run = workshop.train("micro/baseline.yaml", f"lines-{ranks}", *FEW, ranks=ranks)
    steps = [line for line in run.stdout.splitlines() if "| Loss: " in line and "Step " in line]
    assert len(steps) == 3, run.stdout
    assert "Step 3 Validation Loss: " in run.stdout and "Training completed: step 3" in run.stdout
