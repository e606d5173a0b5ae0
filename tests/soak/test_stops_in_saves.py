"""SIGTERM while a save is held at every one of its points, on each of two ranks: 80, nothing torn, and the next start
ends with the state of the run that nobody disturbed."""
import itertools
import signal

import pytest

from history import History, newest, retained
from tiny_runs import TinyRuns, events, wait_for_hit

# Rank 1 only writes its part and votes.
OF_BOTH = ["save.stage.begin", "save.shard.open", "save.shard.half", "save.shard.written", "save.shard.fsync",
           "save.shard.closed", "save.vote.post", "save.vote.read"]
OF_RANK_0 = ["save.tmpdir.made", "save.state.half", "save.manifest.half", "save.manifest.fsync", "save.dirs.fsync",
             "save.rename.before", "save.rename.after", "save.parent.fsync", "save.pointer.rename"]
CASES = [*itertools.product(OF_BOTH, (0, 1)), *((point, 0) for point in OF_RANK_0)]
STEPS = 30


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return TinyRuns(wmtp, tmp_path_factory.mktemp("stops"), steps=STEPS, every=5)


@pytest.fixture(scope="module")
def calm(runs):
    return History(runs, "calm", ranks=2, checkpoint__save_every_steps=1)


def test_every_point(runs, calm, scale):
    count = min(len(CASES), max(3, round(len(CASES) * scale)))
    for point, rank in [CASES[i * len(CASES) // count] for i in range(count)]:
        name, case = f"{point}-{rank}", f"{point} on rank {rank}"
        hits = runs.folder / f"{name}.hits"
        process = runs.start(name, ranks=2, hits=hits, checkpoint__save_best=False,
                             failpoint=f"{point}:rank={rank}=sleep:1500;step.begin:nth=1+=sleep:60")
        wait_for_hit(process, hits, point)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=300)[0]
        assert process.returncode == 80, f"{case}: {process.returncode}\n{text}"
        told = max(event["step"] for event in events(text, "saved"))
        assert told < STEPS and not calm.complaints_of(newest(runs, name), told), case
        done = runs.run(name, ranks=2, checkpoint__save_best=False, training__log_interval=1)
        assert events(done.stdout, "resumed")[0]["step"] == told, case
        assert not calm.complaints_of(retained(runs, name), STEPS), case
        assert not list(runs.save_dir(name).glob("*.bad-*")), case
    print(f"\nF4: SIGTERM at {count} of {len(CASES)} points of a save x rank: all saved, all ended bit-equal")
