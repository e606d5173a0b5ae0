"""A kill at every point of a step and of a stop, on each of two ranks, then another at every point of recovery:
the third start ends with the state of the run that nobody disturbed."""
import itertools
import signal

import pytest

from tiny_runs import TinyRuns, state_hash

FIRST = ["step.begin", "step.forward.mid", "step.backward.mid", "step.reduce.before", "step.apply.before",
         "step.report", "stop.agreed"]
SECOND = ["load.scan.begin", "load.manifest.read", "load.box.read", "step.begin", "step.apply.before",
          "save.stage.memory", "save.stage.begin", "save.tmpdir.made", "save.shard.open", "save.shard.half",
          "save.shard.written", "save.shard.fsync", "save.shard.closed", "save.vote.post", "save.vote.read",
          "save.state.half", "save.manifest.half", "save.manifest.fsync", "save.dirs.fsync", "save.rename.before",
          "save.rename.after", "save.parent.fsync", "save.pointer.rename", "retain.manifest.gone",
          "retain.files.half"]
DIED = (137, 75)  # the rank itself first, or the one that lost it


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("two"), steps=16, every=3)
    runs.run("calm", ranks=2, checkpoint__save_total_limit=2)
    return runs


def attempt(runs, name, failpoint, hits, stop=False):
    process = runs.start(name, ranks=2, failpoint=failpoint, hits=hits, checkpoint__save_total_limit=2)
    if stop:
        while not runs.steps(name) and process.poll() is None:
            pass
        process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=300)[0]
    return process.returncode, text


def test_every_pair(runs, scale, tmp_path):
    pairs = list(itertools.product(FIRST, (0, 1), SECOND))
    count = max(3, round(len(pairs) * scale))
    chosen = [pairs[i * len(pairs) // count] for i in range(count)]
    for number, (first, rank, second) in enumerate(chosen):
        name, case = f"run{number}", f"{first} on rank {rank}, then {second}"
        stop = first == "stop.agreed"
        nth, slow = ("", ";step.begin:nth=1+=sleep:60") if stop else (":nth=8", "")
        hits = tmp_path / f"{name}.hits"
        code, text = attempt(runs, name, f"{first}:rank={rank}{nth}=kill{slow}", hits, stop)
        assert code in DIED and first in hits.read_text(), f"{case}: {code}\n{text[-3000:]}"
        hits = tmp_path / f"{name}.second"
        code, text = attempt(runs, name, f"{second}=kill", hits)
        assert hits.exists() and second in hits.read_text(), f"{case}: the second was never reached\n{text[-3000:]}"
        assert code in DIED, f"{case}: {code}\n{text[-3000:]}"
        code, text = attempt(runs, name, None, None)
        assert code == 0, f"{case}: {code}\n{text[-3000:]}"
        assert state_hash(runs.checkpoint(name, 16)) == state_hash(runs.checkpoint("calm", 16)), case
        assert not list(runs.save_dir(name).glob("*.bad-*")), case
    print(f"\nG3: {count} of {len(pairs)} pairs of faults, both reached: all ended bit-equal")
