"""How runs end and begin again: what was promised at the end is there, and a start knows what the folder holds."""
import json
import shutil
import signal
import subprocess
import time

import pytest

from tiny_runs import TinyRuns, environment, error_of, events, state_hash


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """A run of 20 steps of one process that saves every fifth, and its folder.

    Where a test counts the saves they are not asynchronous: one that is due while a slow disk still writes is left out.
    """
    if not wmtp.json("version")["features"]["failpoints"]:
        pytest.skip("a release build")
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("ends"), steps=20, every=5)
    runs.run("calm", checkpoint__save_total_limit=None, checkpoint__async=False)
    return runs


def copy_of_calm(runs, name):
    shutil.copytree(runs.folder / "calm", runs.folder / name)


def pointer(runs, name, which):
    path = runs.save_dir(name) / f"tiny-{which}"
    return path.read_text().strip() if path.exists() else None


def identity(checkpoint):
    """Changes with every write of the checkpoint, also by equal bytes."""
    return [(file.name, file.stat().st_ino, file.stat().st_mtime_ns) for file in sorted(checkpoint.rglob("*"))]


# ---- ends

def test_rank_0_tells_of_an_error_that_another_rank_alone_has_met(runs, tmp_path):
    """Launchers show the standard output of rank 0 alone."""
    started = []
    for rank in (0, 1):
        env = {**environment(), "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
               "WMTP_RENDEZVOUS": f"file://{tmp_path / 'meeting'}", "WMTP_RUN_TOKEN": "ab" * 16}
        command = runs.command("alone", training__batch_size=2 * (1 - rank))
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env))
    first, other = [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in started]
    assert [process.returncode for process in started] == [78, 78]
    assert first["type"] == "error" and first["kind"] == "config" and first["code"] == 78
    assert first["where"] == "rank 1" and "training.batch_size" in first["message"]
    assert other["type"] == "error" and "training.batch_size" in other["message"]


def test_an_end_that_cannot_be_saved_is_no_success(runs):
    done = runs.run("lost", code=74, failpoint="save.shard.open:nth=1+=enospc", checkpoint__save_every_steps=None,
                    checkpoint__save_best=False)
    assert "the end of the run, step 20, could not be saved" in error_of(done)
    assert not runs.steps("lost")
    done = runs.run("lost")  # nothing stands in the way of another try
    assert runs.steps("lost")[-1] == 20


def test_an_end_that_fails_once_is_saved_again(runs):
    runs.run("again", failpoint="save.shard.open:nth=1=eio", checkpoint__save_every_steps=None,
             checkpoint__save_best=False)
    assert pointer(runs, "again", "final") == "tiny-20steps"
    assert state_hash(runs.checkpoint("again", 20)) == state_hash(runs.checkpoint("calm", 20))


def test_a_stop_is_saved_again_if_that_fails_once(runs):
    hits = runs.folder / "halted.hits"
    process = runs.start("halted", failpoint="save.shard.open:nth=1=eio;step.begin:nth=3=sleep:500", hits=hits,
                         checkpoint__save_every_steps=None, checkpoint__save_best=False)
    while not hits.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=120)[0]
    assert process.returncode == 80 and "save.shard.open" in hits.read_text(), text
    (step,) = runs.steps("halted")
    assert events(text, "saved")[-1]["step"] == step
    runs.run("halted")
    assert state_hash(runs.checkpoint("halted", 20)) == state_hash(runs.checkpoint("calm", 20))


def test_without_a_final_save_the_last_step_is_saved_when_it_is_due(runs):
    runs.run("due", checkpoint__save_final=False)
    assert runs.steps("due")[-1] == 20 and not pointer(runs, "due", "final")


def test_a_finished_run_writes_nothing_again(runs):
    copy_of_calm(runs, "done")
    before = identity(runs.checkpoint("done", 20))
    (runs.save_dir("done") / "tiny-final").unlink()
    runs.run("done", checkpoint__save_total_limit=None)
    assert identity(runs.checkpoint("done", 20)) == before
    assert pointer(runs, "done", "final") == "tiny-20steps", "what a kill had left out"


EARLY = {"training__early_stop_patience": 2, "training__eval_at_start": True, "training__eval_every_steps": 2,
         "training__learning_rate": 1.0, "training__use_lora": False, "training__lr_scheduler__type": "constant"}


def test_an_early_end_is_the_end(runs):
    """Every validation is worse than the first one, that of the untrained model, which nobody saved."""
    runs.run("early", **EARLY)
    assert runs.steps("early")[-1] == 4, "two validations without a new best"
    assert pointer(runs, "early", "best") is None
    state = json.loads((runs.checkpoint("early", 4) / "trainer_state.json").read_text())
    assert state["best"]["step"] == 0
    before = identity(runs.checkpoint("early", 4))
    done = runs.run("early", **EARLY)
    assert events(done.stdout, "resumed")[0]["step"] == 4
    assert runs.steps("early")[-1] == 4 and identity(runs.checkpoint("early", 4)) == before


def test_how_it_ended_is_written_down(runs):
    def last_exit():
        return json.loads((runs.folder / "noted/last_exit.json").read_text())

    runs.run("noted", code=74, failpoint="save.shard.open:nth=2+=enospc", checkpoint__save_best=False)
    assert last_exit()["code"] == 74 and last_exit()["committed_step"] in (None, 5)
    runs.run("noted")
    written = last_exit()
    assert (written["code"], written["step"], written["committed_step"], written["reason"]) == (0, 20, 20, "done")
    before = {name: (runs.folder / "noted" / name).read_bytes() for name in ("config.yaml", "summary.json")}
    runs.run("noted")
    runs.run("noted", code=78, training__lora__rank=2)
    for name, content in before.items():
        assert (runs.folder / "noted" / name).read_bytes() == content, f"{name} is that of the run that worked"
    assert last_exit()["code"] == 78


# ---- begins

def test_a_model_with_another_name_does_not_begin_anew_in_silence(runs):
    copy_of_calm(runs, "renamed")
    done = runs.run("renamed", code=78, models__policy__name="other")
    assert "holds tiny-20steps and no checkpoint of other" in error_of(done)
    runs.run("renamed", "--resume", "never", models__policy__name="other", training__max_steps=2)
    assert (runs.save_dir("renamed") / "other-2steps").is_dir()


def test_what_was_set_aside_is_known_at_every_later_start(runs):
    copy_of_calm(runs, "broken")
    for step in (5, 10, 15, 20):
        (runs.checkpoint("broken", step) / "manifest.json").write_text("{")
    for _ in range(3):
        done = runs.run("broken", code=74)
        assert "none of the checkpoints" in error_of(done)
    assert "set aside earlier: tiny-10steps.bad-1" in error_of(done)
    done = runs.run("broken", "--allow-fresh-start")
    assert not events(done.stdout, "resumed") and runs.steps("broken")[-1] == 20


def test_a_run_that_was_rewound_keeps_what_it_saves(runs):
    copy_of_calm(runs, "rewound")
    done = runs.run("rewound", "--resume", runs.checkpoint("rewound", 5), training__max_steps=12,
                    checkpoint__save_every_steps=2, checkpoint__save_total_limit=2, checkpoint__async=False)
    assert events(done.stdout, "resumed")[0]["step"] == 5
    assert "checkpoints of later steps, up to tiny-20steps" in done.stderr
    assert runs.steps("rewound") == [10, 12, 15, 20], "its own two newest, and the line it left"
    assert pointer(runs, "rewound", "latest") == "tiny-12steps"


def test_a_restart_goes_on_where_the_first_start_began_anew(runs):
    """A launcher repeats `--resume never` and `--resume PATH`; only the first start is to follow them."""
    copy_of_calm(runs, "anew")
    done = runs.run("anew", "--resume", "never", ranks=2, restarts=3, failpoint="step.begin:rank=1:nth=12=kill",
                    checkpoint__async=False)
    resumed = [event["step"] for event in events(done.stdout, "resumed")]
    assert resumed == [10], "the second start goes on from what the first one saved"
    copy_of_calm(runs, "onward")
    done = runs.run("onward", "--resume", runs.checkpoint("calm", 5), ranks=2, restarts=3,
                    failpoint="step.begin:rank=1:nth=12=kill", checkpoint__async=False)
    resumed = [event["step"] for event in events(done.stdout, "resumed")]
    assert resumed == [5, 15] and runs.steps("onward")[-1] == 20


# ---- the best one

BEST = {"training__eval_every_steps": 5, "checkpoint__save_total_limit": 2, "checkpoint__save_every_steps": 2}


def test_the_best_is_named_although_the_run_was_killed_before(runs):
    """The first validation is at step 5, and it is the best so far: killed before -best says so."""
    hits = runs.folder / "best.hits"
    # Saves at 2 and 4 write one pointer each, that at 5 -best first.
    process = runs.start("best", failpoint="save.pointer.rename:nth=3=kill", hits=hits, checkpoint__async=False, **BEST)
    text = process.communicate(timeout=300)[0]
    assert process.returncode == -9 or process.returncode == 137, text
    assert "save.pointer.rename" in hits.read_text() and runs.steps("best")[-1] == 5
    assert pointer(runs, "best", "best") is None
    runs.run("best", training__max_steps=5, **BEST)
    assert pointer(runs, "best", "best") == "tiny-5steps"


def test_retention_keeps_the_best_although_its_pointer_is_lost(runs):
    """From step 10 on a learning rate of 1 spoils the model: what was best at step 5 or 10 stays so."""
    options = dict(BEST, training__use_lora=False)
    runs.run("kept", training__max_steps=10, **options)
    best = pointer(runs, "kept", "best")
    (runs.save_dir("kept") / "tiny-best").unlink()
    runs.run("kept", training__learning_rate=1.0, checkpoint__allow_config_change=["training.learning_rate"], **options)
    assert pointer(runs, "kept", "best") == best and best in [f"tiny-{step}steps" for step in runs.steps("kept")]
    assert len(runs.steps("kept")) <= 3


# ---- memory

def test_saves_wait_where_memory_is_short(runs):
    done = runs.run("short", failpoint="save.stage.memory:nth=1+=enospc", checkpoint__save_total_limit=None)
    assert done.stderr.count("host memory is too short for a copy of the state") == 1
    for step in (5, 10, 15, 20):
        assert state_hash(runs.checkpoint("short", step)) == state_hash(runs.checkpoint("calm", step))
