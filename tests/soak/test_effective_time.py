"""What part of the time goes into steps that last, with one random kill per 60 s and a save every 5 s."""
from killed_run import KilledRun
from tiny_runs import TinyRuns

GOAL = 0.9
OPTIONS = {"ranks": 2, "failpoint": "step.begin:nth=1+=sleep:100", "training__log_interval": 1,
           "training__n_epochs": 1_000_000, "training__eval_every_steps": 1_000_000, "checkpoint__save_every_steps": None,
           "checkpoint__save_every_minutes": 5 / 60}


def newest_step(run):
    return max((line["step"] for _, line in list(run.lines) if line["type"] == "step"), default=0)


def steps_per_second(runs, seconds):
    """Of a run that nobody disturbs, from its first step on."""
    run = KilledRun(runs, "calm", **OPTIONS)
    run.wait_for(lambda: newest_step(run) >= 5, 120)
    first, began = newest_step(run), run.now()
    run.wait_for(lambda: run.now() - began >= seconds, seconds + 60)
    rate = (newest_step(run) - first) / (run.now() - began)
    assert run.stop() == 80
    return rate


def test_effective_training_time(wmtp, tmp_path, scale):
    seconds, pause = max(40, 1800 * scale), 60 if scale >= 1 else 20
    runs = TinyRuns(wmtp, tmp_path, steps=1_000_000, every=5)
    rate = steps_per_second(runs, min(60, seconds))
    run = KilledRun(runs, "run", restarts=5, **OPTIONS)
    run.wait_for(lambda: newest_step(run) >= 5, 120)
    first, began, kills = newest_step(run), run.now(), 0
    due = began + run.random.uniform(0, pause)
    while run.now() - began < seconds:
        run.wait_for(lambda: run.now() >= min(due, began + seconds), pause * 2 + 60)
        if run.now() - began >= seconds or len(run.ranks()) < 2:
            continue
        run.kill_one()
        kills += 1
        due = began + kills * pause + run.random.uniform(0, pause)
    run.wait_for(lambda: len(run.ranks()) == 2, 60)
    lasted = newest_step(run) - first
    effective = lasted / (rate * (run.now() - began))
    assert run.stop() == 80
    print(f"\nG9: {kills} kills in {seconds / 60:.1f} min, {lasted} steps last, {rate:.2f} steps/s undisturbed: "
          f"effective training time {effective:.1%}, goal {GOAL:.0%}")
    assert kills > 0
    assert effective >= GOAL or scale < 1
