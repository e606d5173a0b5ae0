"""Saving and going on, as the program does it: stops, choices at the start, refusals, broken storage."""
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest

from tiny_runs import (TinyRuns, environment, error_of, events, metrics, result_of, state_hash, wait_for,
                       wait_for_hit)


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A run of 40 steps of one process, and its folder."""
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("resume"))
    runs.run("calm", checkpoint__save_total_limit=None, checkpoint__async=False)
    return runs


@pytest.fixture(scope="module")
def calm2(runs):
    """The same of two processes: the state at every step that is saved."""
    runs.run("calm2", ranks=2, checkpoint__save_total_limit=None, checkpoint__async=False)
    return {step: state_hash(runs.checkpoint("calm2", step)) for step in runs.steps("calm2")}


def copy_of(runs, name, steps, origin="calm"):
    """A new run folder that has those checkpoints of another run."""
    runs.save_dir(name).mkdir(parents=True)
    for step in steps:
        shutil.copytree(runs.checkpoint(origin, step), runs.checkpoint(name, step))


def damage(runs, name, step):
    path = next((runs.checkpoint(name, step) / "model").iterdir())
    content = bytearray(path.read_bytes())
    content[-7] ^= 4
    path.write_bytes(content)


# ---- choices at the start

def test_a_finished_run_does_nothing_more(runs):
    before = state_hash(runs.checkpoint("calm", 40))
    done = runs.run("calm", checkpoint__save_total_limit=None, checkpoint__async=False)
    assert events(done.stdout, "resumed")[0]["step"] == 40
    assert not [line for line in done.stdout.splitlines() if '"type":"step"' in line]
    assert state_hash(runs.checkpoint("calm", 40)) == before


def test_auto_takes_the_newest_that_verifies(runs):
    copy_of(runs, "auto", [10, 20, 30])
    damage(runs, "auto", 30)
    done = runs.run("auto")
    assert events(done.stdout, "resumed")[0]["step"] == 20
    assert runs.checkpoint("auto", 30).with_name("tiny-30steps.bad-1").is_dir()
    assert "tiny-30steps" in done.stderr and "bytes" in done.stderr
    assert state_hash(runs.checkpoint("auto", 40)) == state_hash(runs.checkpoint("calm", 40))


@pytest.mark.parametrize("place, step", [("checkpoints/tiny-best", 30), ("checkpoints", 35), ("", 35)])
def test_a_path_may_be_a_pointer_or_a_run(runs, place, step):
    name = f"named-{step}-{len(place)}"
    copy_of(runs, name, [30, 35])
    (runs.save_dir(name) / "tiny-best").write_text("tiny-30steps\n")
    done = runs.run(f"{name}-on", "--resume", runs.folder / name / place)
    assert events(done.stdout, "resumed")[0]["step"] == step
    assert state_hash(runs.checkpoint(f"{name}-on", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_what_is_no_checkpoint_is_refused_by_what_it_is(runs):
    copy_of(runs, "odd", [30])
    renamed = runs.checkpoint("odd", 30).rename(runs.save_dir("odd") / "kept")
    assert "step 30 of tiny" in error_of(runs.run("odd2", "--resume", renamed, code=78))
    message = error_of(runs.run("odd2", "--resume", runs.folder / "data", code=78))
    assert "no checkpoint of tiny" in message and "a folder without manifest.json" in message
    message = error_of(runs.run("odd2", "--resume", runs.checkpoint("calm", 30), models__policy__name="other", code=78))
    assert "checkpoint of tiny" in message and "called other" in message
    done = runs.run("odd2", "--resume", "nope", code=78)
    assert "a run's folder" in error_of(done)


def test_a_path_is_that_one_or_an_error(runs):
    done = runs.run("path", "--resume", runs.checkpoint("calm", 15))
    assert events(done.stdout, "resumed")[0]["step"] == 15
    assert state_hash(runs.checkpoint("path", 40)) == state_hash(runs.checkpoint("calm", 40))
    copy_of(runs, "path2", [10, 20])
    damage(runs, "path2", 20)
    done = runs.run("path3", "--resume", runs.checkpoint("path2", 20), code=74)
    assert "tiny-20steps" in error_of(done)
    assert runs.steps("path2") == [10, 20], "a named one is not set aside"


def test_never_starts_over(runs):
    copy_of(runs, "never", [20])
    done = runs.run("never", "--resume", "never")
    assert not events(done.stdout, "resumed")
    assert state_hash(runs.checkpoint("never", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_none_that_verifies_is_74_and_no_silent_fresh_start(runs):
    copy_of(runs, "broken", [10, 20])
    for step in (10, 20):
        damage(runs, "broken", step)
    done = runs.run("broken", code=74)
    assert "none of the checkpoints" in error_of(done) and "bytes" in error_of(done)
    again = runs.run("broken", "--allow-fresh-start")
    assert not events(again.stdout, "resumed")


def test_another_configuration_is_refused_by_key(runs):
    copy_of(runs, "changed", [20])
    done = runs.run("changed", code=78, training__lora__rank=2)
    assert "training.lora.rank: 4 -> 2" in error_of(done)
    done = runs.run("changed", code=78, runtime__seed=7, data_sampling__seed=9)
    for key in ("runtime.seed", "data_sampling.seed"):
        assert key in error_of(done)
    done = runs.run("changed", runtime__seed=7, checkpoint__allow_config_change=["runtime.seed"])
    assert events(done.stdout, "resumed")[0]["step"] == 20
    assert state_hash(runs.checkpoint("changed", 40)) != state_hash(runs.checkpoint("calm", 40))


def test_another_number_of_ranks_is_told(runs, calm2):
    copy_of(runs, "three", [20], origin="calm2")
    command = [word for word in runs.command("three", ranks=3) if word != "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Resumed from tiny-20steps (saved by 2 ranks, now 3)" in done.stdout


# ---- stops

@pytest.mark.parametrize("point", ["save.shard.half", "save.vote.post", "save.rename.before", "save.pointer.rename"])
def test_sigterm_during_a_save_tears_nothing(runs, calm2, point):
    name = "term-" + point
    log = runs.folder / f"{name}.hits"
    process = runs.start(name, ranks=2, failpoint=f"{point}:nth=2=sleep:1500;step.begin:nth=1+=sleep:60", hits=log)
    wait_for_hit(process, log, point)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 80, text
    stopped = max(runs.steps(name))
    assert 5 <= stopped < 40
    done = runs.run(name, ranks=2)
    assert events(done.stdout, "resumed")[0]["step"] == stopped
    assert state_hash(runs.checkpoint(name, 40)) == calm2[40]


def test_a_stop_file_ends_the_run_with_80(runs):
    stop = runs.folder / "halt"
    process = runs.start("file", failpoint="step.begin:nth=1+=sleep:60", runtime__stop_file=str(stop))
    wait_for(lambda: runs.steps("file") or process.poll() is not None)
    stop.touch()
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 80, text
    assert not stop.exists()
    runs.run("file")
    assert state_hash(runs.checkpoint("file", 40)) == state_hash(runs.checkpoint("calm", 40))


# ---- a writer that is slower than the interval

def skipped_saves(runs, name):
    """Steps whose save was left out, from the run's metrics, which count them."""
    points = [line for line in metrics(runs, name) if "checkpoint/skipped_saves" in line]
    assert [line["checkpoint/skipped_saves"] for line in points] == list(range(1, len(points) + 1))
    return [line["step"] for line in points]


def test_saves_that_find_the_writer_busy_are_counted_and_told_once(runs):
    """And the save that takes so long writes the values of its call: the steps meanwhile do not get into it."""
    done = runs.run("busy", failpoint="save.tmpdir.made:nth=1=sleep:3000", checkpoint__save_best=False,
                    checkpoint__save_total_limit=None)
    skipped = skipped_saves(runs, "busy")
    saved = [event["step"] for event in events(done.stdout, "saved")]
    assert skipped and sorted(saved + skipped) == list(range(5, 41, 5))
    periods = sum(step - 5 not in skipped for step in skipped)
    assert done.stderr.count("still being written") == periods
    assert result_of(done)["counts"]["skipped saves"] == len(skipped)
    assert 5 in saved and skipped[0] == 10 and runs.steps("busy") == saved
    for step in saved:
        assert state_hash(runs.checkpoint("busy", step)) == state_hash(runs.checkpoint("calm", step)), step


def test_a_requested_save_is_made_once_the_writer_is_free(runs):
    log = runs.folder / "asked.hits"
    process = runs.start("asked", hits=log, checkpoint__save_every_steps=1000, checkpoint__save_best=False,
                         failpoint="save.tmpdir.made:nth=1=sleep:1500;step.begin:nth=1+=sleep:100")
    for point in "step.begin", "save.tmpdir.made":  # the second request meets a busy writer
        wait_for(lambda: log.exists() and point in log.read_text() or process.poll() is not None)
        process.send_signal(signal.SIGUSR2)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 0, text
    assert len(skipped_saves(runs, "asked")) == 1
    assert len(events(text, "saved")) == 3, text  # both, and the last step


# ---- broken storage

def failed_saves(runs, name):
    """[(step, how many so far)] as the run's metrics have it."""
    return [(point["step"], point["checkpoint/failed_saves"]) for point in metrics(runs, name)
            if "checkpoint/failed_saves" in point]


def test_two_runs_in_one_folder(runs):
    first = runs.start("shared", failpoint="step.begin:nth=1+=sleep:300")
    lock = runs.save_dir("shared") / "tiny.lock"
    wait_for(lambda: lock.exists() and str(first.pid) in lock.read_text())
    message = error_of(runs.run("shared", code=78))
    assert str(first.pid) in message and os.uname().nodename in message
    first.kill()
    first.communicate()
    runs.run("shared")
    assert state_hash(runs.checkpoint("shared", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_a_full_disk_fails_saves_and_then_the_run(runs, tmp_path):
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path],
                                           capture_output=True).returncode:
        pytest.skip("cannot mount a small file system")
    try:
        (tmp_path / "filler").write_bytes(b"x" * 1_500_000)
        done = runs.run("full", code=74, checkpoint__save_dir=str(tmp_path), checkpoint__async=False)
        assert "3 saves in a row failed" in error_of(done)
        assert "free" in done.stderr
        assert failed_saves(runs, "full")[:2] == [(5, 1), (10, 2)]
        # Room again: the same command starts, and saves.
        (tmp_path / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", tmp_path], check=True)
        runs.run("full", checkpoint__save_dir=str(tmp_path))
        assert state_hash(tmp_path / "tiny-40steps") == state_hash(runs.checkpoint("calm", 40))
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_file_size_limit_fails_saves_and_keeps_the_last_good_one(runs):
    copy_of(runs, "limit", [5])
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    done = subprocess.run(runs.command("limit", checkpoint__async=False), capture_output=True, text=True,
                          timeout=300, env=environment(), preexec_fn=limit)
    assert done.returncode == 74, done.stdout + done.stderr
    assert "saves in a row failed" in error_of(done)
    assert runs.steps("limit") == [5] and failed_saves(runs, "limit")[:2] == [(10, 1), (15, 2)]
    runs.run("limit")
    assert state_hash(runs.checkpoint("limit", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_one_failed_save_is_no_end(runs):
    done = runs.run("once", failpoint="save.shard.fsync:nth=1=eio", checkpoint__async=False)
    saved = [e["step"] for e in events(done.stdout, "saved")]
    assert 5 not in saved and 10 in saved
    assert failed_saves(runs, "once") == [(5, 1)] and result_of(done)["counts"]["failed saves"] == 1
    assert state_hash(runs.checkpoint("once", 40)) == state_hash(runs.checkpoint("calm", 40))


@contextlib.contextmanager
def read_only(folder):
    """The folder for as long as that; what is open there stays so."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
        return
    # A read-only view of it, made elsewhere and laid upon it: the file system itself cannot become so while it is in use.
    view = folder.with_name("view")
    view.mkdir()
    if subprocess.run(["mount", "--bind", folder, view], capture_output=True).returncode:
        pytest.skip("cannot mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True)
        subprocess.run(["mount", "--bind", view, folder], check=True)
        yield
    finally:
        for place in (folder, view):
            subprocess.run(["umount", "-l", place], check=True)


def test_a_folder_that_becomes_read_only_and_writable_again(runs):
    """Saves fail and are counted, training goes on, what was saved stays; then they work again."""
    process = runs.start("turned", failpoint="step.begin:nth=1+=sleep:60", checkpoint__max_failed_saves=100)
    try:
        wait_for(lambda: runs.steps("turned") or process.poll() is not None)
        with read_only(runs.save_dir("turned")):
            before = runs.steps("turned")
            wait_for(lambda: failed_saves(runs, "turned") or process.poll() is not None)
            assert runs.steps("turned") == before, "nothing can be removed or written there"
        text = process.communicate(timeout=120)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, text
    assert "Read-only file system" in text or "Permission denied" in text, text
    failed = failed_saves(runs, "turned")
    saved = [event["step"] for event in events(text, "saved")]
    assert [count for _, count in failed] == list(range(1, len(failed) + 1))
    assert not {step for step, _ in failed} & set(saved) and saved[-1] == 40
    assert state_hash(runs.checkpoint("turned", 40)) == state_hash(runs.checkpoint("calm", 40))


def test_a_folder_that_cannot_be_written(runs, tmp_path):
    if os.geteuid() == 0:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True).returncode:
            pytest.skip("cannot mount a read-only file system")
    else:
        tmp_path.chmod(0o500)
    try:
        done = runs.run("readonly", code=74, checkpoint__save_dir=str(tmp_path / "saves"))
        assert str(tmp_path) in error_of(done)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", tmp_path], check=True)


# ---- every point of a step and of a stop, on two ranks

@pytest.mark.parametrize("point", ["step.begin", "step.forward.mid", "step.backward.mid", "step.reduce.before",
                                   "step.loss", "step.grad_norm", "step.apply.before", "step.report"])
def test_a_rank_killed_in_a_step(runs, calm2, point):
    """All ranks leave, and the next start ends as if nothing had been."""
    rank = len(point) % 2
    runs.run(point, ranks=2, code=137, failpoint=f"{point}:rank={rank}:nth=17=kill")
    assert runs.steps(point), "nothing was saved before the kill"
    done = runs.run(point, ranks=2)
    assert events(done.stdout, "resumed")
    assert state_hash(runs.checkpoint(point, 40)) == calm2[40]


@pytest.mark.parametrize("point", ["step.loss", "step.grad_norm"])
def test_a_spoiled_step_is_skipped_by_all_ranks(runs, calm2, point):
    name = "spoiled-" + point
    runs.run(name, ranks=2, failpoint=f"{point}:rank=1:nth=17=damage")
    state = json.loads((runs.checkpoint(name, 40) / "trainer_state.json").read_text())
    assert state["schedule"]["skipped_steps"] == 1 and state["optimizer"]["applied_updates"] == 39
    assert state_hash(runs.checkpoint(name, 40)) != calm2[40]


def test_spoiled_steps_in_a_row_end_the_run_with_17(runs):
    done = runs.run("spoiled-row", ranks=2, code=17, failpoint="step.loss:rank=1:nth=17+=damage")
    assert "in a row were not finite" in done.stdout + done.stderr
    assert runs.steps("spoiled-row"), "the checkpoints before it stay"


@pytest.mark.parametrize("rank", [0, 1])
def test_killed_when_the_stop_was_agreed(runs, calm2, rank):
    name = f"stop-{rank}"
    hits = runs.folder / f"{name}.hits"
    process = runs.start(name, ranks=2, failpoint=f"step.begin:nth=1+=sleep:60;stop.agreed:rank={rank}=kill", hits=hits)
    wait_for(lambda: runs.steps(name) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=120)[0]
    assert process.returncode in (75, 81, 137), text
    assert f"stop.agreed {rank} 1 kill" in hits.read_text()
    runs.run(name, ranks=2)
    assert state_hash(runs.checkpoint(name, 40)) == calm2[40]


@pytest.mark.parametrize("point", ["save.shard.half", "save.vote.post", "save.state.half", "save.rename.before",
                                   "save.rename.after", "save.pointer.rename"])
def test_a_rank_killed_in_a_save(runs, calm2, point):
    """The other rank does not wait for a vote that never comes."""
    name = "kill-" + point
    rank = 1 if point in ("save.shard.half", "save.vote.post") else 0
    start = time.monotonic()
    runs.run(name, ranks=2, code=137, failpoint=f"{point}:rank={rank}:nth=2=kill")
    assert time.monotonic() - start < 60
    runs.run(name, ranks=2)
    assert state_hash(runs.checkpoint(name, 40)) == calm2[40]


@pytest.mark.parametrize("check_every, saves_every", [(1, 100), (1000, 5)])
def test_ranks_whose_weights_drift_apart(runs, check_every, saves_every):
    """A flipped bit of one rank is found by the check, or by the vote of the next save; never committed."""
    name = f"drift-{check_every}"
    flags = {"distributed__fsdp__sharding_strategy": "NO_SHARD", "distributed__state_check_every": check_every,
             "checkpoint__save_every_steps": saves_every, "checkpoint__async": False}
    done = runs.run(name, ranks=2, code=17, failpoint="step.weights:rank=1:nth=8=damage", **flags)
    assert "differ" in done.stdout + done.stderr
    assert all(step < 8 for step in runs.steps(name))
    runs.run(name + "-control", ranks=2, **flags)


def test_a_rank_killed_at_step_weights(runs, calm2):
    runs.run("kill-weights", ranks=2, code=137, failpoint="step.weights:rank=0:nth=12=kill")
    runs.run("kill-weights", ranks=2)
    assert state_hash(runs.checkpoint("kill-weights", 40)) == calm2[40]
