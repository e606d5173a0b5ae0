"""`wmtp train --dry-run`: what it finds of a run that would fail, and that nothing is left of it."""
import contextlib
import json

import pytest
from dry_run_lab import FAULTS, KEYS, Lab, lines_of


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
    for part in ("memory of a rank:", "together", "are free in", "A sample of stage baseline", "Loss:", "Dry run passed"):
        assert part in done.stdout, done.stdout


def test_what_a_killed_trial_left_is_removed_by_the_next(lab):
    left = lab.folder / "runs/.wmtp-dry-run-gone"
    left.mkdir()
    (left / "file").write_text("x")
    import os
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
    path = next((lab.folder / "runs/torn/checkpoints/trial-2steps").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-64])
    before = lab.tree()
    done = lab.dry(["runtime.run_dir=runs/torn", "checkpoint.save_every_steps=1"])
    assert done.returncode == 0, done.stderr
    assert "would set it aside" in done.stderr
    assert lines_of(done, "result")[0]["resumes_from"] == "trial-1steps"
    assert lab.tree() == before


def test_json_of_a_dry_run_is_json_lines_only(lab):
    for line in lab.dry().stdout.splitlines():
        assert "ts" in json.loads(line)
