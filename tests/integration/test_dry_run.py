"""`wmtp train --dry-run`: what it finds of a run that would fail, and that nothing is left of it."""
import contextlib
import os
import signal
import subprocess

import pytest
from dry_run_lab import FAULTS, KEYS, Lab, lines_of, two_heads
from tiny_runs import wait_for_hit


@pytest.fixture(scope="module")
def lab(wmtp, tmp_path_factory):
    return Lab(wmtp, tmp_path_factory.mktemp("lab"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_with_the_code_of_the_run(lab, name):
    fault = FAULTS[name]
    overrides = [*fault.overrides, *(fault.prepare(lab) if fault.prepare else ())]
    with fault.place(lab) if fault.place else contextlib.nullcontext():
        before = lab.tree()
        done = lab.dry(overrides, fault.flags, env=KEYS)
        after = lab.tree()
    assert done.returncode == fault.code, done.stdout + done.stderr
    errors = lines_of(done, "error")
    assert len(errors) == (0 if fault.warned else 1), done.stdout
    told = done.stderr if fault.warned else errors[0]["message"]
    assert all(word in told for word in fault.said), told
    if name == "folder of a living run":  # which goes on writing
        assert not [path for path in after if "wmtp-dry-run" in path]
    else:
        assert after == before


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_sound_run_passes_and_leaves_nothing(lab, ranks):
    before = lab.tree()
    done = lab.dry(ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.tree() == before
    result, = lines_of(done, "result")
    assert result["dry_run"] and result["blocks"] == 2 and result["loss"] > 0 and result["save_s"] > 0
    assert result["data"] == "the beginnings of the data files"
    plan, = lines_of(done, "plan")
    assert plan["ranks"] == ranks and plan["memory_bytes"] > 0 and plan["checkpoint_bytes"] > 0
    sample, = lines_of(done, "sample")
    assert ">>" in sample["text"] and "targets" in sample["weights"]
    assert [line["step"] for line in lines_of(done, "step")] == [1]
    assert [line["action"] for line in lines_of(done, "checkpoint")] == ["saved"]


def test_offline_asks_nobody(lab):
    servers = ["mlflow.experiment=trial", "mlflow.tracking_uri=http://127.0.0.1:9", "checkpoint.s3_upload=true",
               "storage.s3.bucket=nobody", "storage.s3.endpoint=http://127.0.0.1:9"]
    before = lab.tree()
    done = lab.dry(servers, ["--offline"], env=KEYS)
    assert done.returncode == 0 and "spool" not in done.stderr, done.stderr
    result, = lines_of(done, "result")
    assert "--offline" in result["s3"] and "--offline" in result["mlflow"]
    assert lab.tree() == before


def test_people_read_the_plan_the_sample_and_the_end(lab):
    done = lab.wmtp.run("train", "--config", lab.config, "--defaults", "none", "--dry-run")
    for part in ("memory of a rank:", "together", "are free in", "A sample of stage baseline", "Step 1/1", "Dry run passed"):
        assert part in done.stdout, done.stdout


def test_what_a_killed_trial_left_is_removed_by_the_next(lab):
    left = lab.folder / "runs/.wmtp-dry-run-gone"
    left.mkdir()
    (left / "file").write_text("x")
    os.utime(left, (1, 1))
    assert lab.dry().returncode == 0
    assert not left.exists()


def test_a_run_that_would_resume_says_from_where(lab):
    done = lab.run("train", ["training.max_steps=2", "runtime.run_dir=runs/begun"])
    assert done.returncode == 0, done.stderr
    before = lab.tree()
    done = lab.dry(["runtime.run_dir=runs/begun"])
    assert done.returncode == 0, done.stderr
    assert lines_of(done, "result")[0]["resumes_from"] == "trial-2steps"
    assert lab.tree() == before


def test_a_damaged_checkpoint_is_told_and_not_set_aside(lab):
    done = lab.run("train", ["training.max_steps=2", "runtime.run_dir=runs/torn", "checkpoint.save_every_steps=1"])
    assert done.returncode == 0, done.stderr
    files = [path for path in (lab.folder / "runs/torn/checkpoints/trial-2steps").rglob("*") if path.is_file()]
    path = max(files, key=lambda one: one.stat().st_size)
    path.write_bytes(path.read_bytes()[:-64])
    before = lab.tree()
    done = lab.dry(["runtime.run_dir=runs/torn", "checkpoint.save_every_steps=1"])
    assert done.returncode == 0, done.stderr
    assert "would set it aside" in done.stderr
    assert lines_of(done, "result")[0]["resumes_from"] == "trial-1steps"
    assert lab.tree() == before


def result_of(lab, overrides=(), **options):
    """Of a dry run that must pass and leave nothing."""
    before = lab.tree()
    done = lab.dry(overrides, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lab.tree() == before
    return lines_of(done, "result")[0]


@pytest.mark.parametrize("overrides,blocks", [
    (["training.use_lora=true", "data_sampling.n_samples=150"], 2),
    (["experiment.stage=critic", "training.backbone_frozen=true"], 2),
    (["experiment.stage=rho1", "models.reference.path=model", "models.policy.path=two-heads"], 4),
    (["dataset.format=text", "dataset.text.column=output", "dataset.max_length=64"], 2),
], ids=["lora", "critic", "rho1", "text"])
def test_other_runs_that_are_sound(lab, overrides, blocks):
    """Their prediction heads stay: the model of two heads has two trunk blocks and both."""
    two_heads(lab)
    assert result_of(lab, overrides)["blocks"] == blocks


def test_a_beginning_without_samples_is_no_fault(lab):
    numbers = iter(range(1000))
    path = lab.rows("late.jsonl", lambda row: {**row, "output": ""} if next(numbers) < 120 else row, count=160)
    result = result_of(lab, [f"dataset.train={path}", "dataset.append_eos=false"])
    assert result["data"] == "the whole data files"


def failing(lab, failpoint, **options):
    done = lab.dry(env={"WMTP_FAILPOINT": failpoint}, **options)
    assert not [path for path in lab.tree() if "wmtp-dry-run" in path]
    return done


def test_a_save_that_fails_is_the_end(lab):
    done = failing(lab, "save.shard.fsync:nth=1+=eio")
    assert done.returncode == 74, done.stderr


def test_a_rank_that_dies_leaves_nothing_behind(lab):
    assert failing(lab, "step.begin:rank=1:nth=1=kill", ranks=2).returncode == 137


def test_a_stop_request_ends_it_and_leaves_nothing(lab, tmp_path):
    hits = tmp_path / "hits"
    words = [lab.wmtp.binary, "train", "--config", lab.config, "--defaults", "none", "--dry-run"]
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "WMTP_FAILPOINT": "step.begin:nth=1=sleep:500", "WMTP_FAILPOINT_LOG": str(hits)})
    wait_for_hit(process, hits, "step.begin")
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 81, text
    assert not [path for path in lab.tree() if "wmtp-dry-run" in path]
