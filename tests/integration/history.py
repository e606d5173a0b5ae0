"""The oracle of the fault tests: what a run that nobody disturbed held at every step that it saved.

The program tells no sample ids. What stands for them: the hash covers trainer_state.json, whose data cursor says how
many samples of which epoch of which list were taken, next to weights and moments that came of applying them; and the
loss of every step in metrics.jsonl is compared, those of steps that were done twice included. A sample left out, or
applied again, changes both."""
import hashlib
import json
import shutil
from pathlib import Path

from tiny_runs import losses_by_step


def content_hash(checkpoint):
    """SHA-256 of all state in a checkpoint as it lies on disk; nothing that the program says of itself is believed."""
    root = Path(checkpoint)
    skip = ("config.yaml", "manifest.json")  # those hold the run's folder, its id and the time
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.name not in skip):
        digest.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def newest(runs, name):
    """{step: hash} of the newest checkpoint that is there."""
    return {step: content_hash(runs.checkpoint(name, step)) for step in runs.steps(name)[-1:]}


def retained(runs, name):
    """The same of every one."""
    return {step: content_hash(runs.checkpoint(name, step)) for step in runs.steps(name)}


class History:
    """OWNS one undisturbed run. `hashes` and `losses` by step."""

    def __init__(self, runs, name, **options):
        """BLOCKS. Checkpoints are removed as soon as they are hashed: long runs save thousands."""
        self.hashes = {}
        process = runs.start(name, checkpoint__async=False, checkpoint__save_total_limit=None,
                             training__log_interval=1, **options)
        text = ""
        for line in process.stdout:
            text = (text + line)[-3000:]
            if '"saved"' in line:
                step = json.loads(line)["step"]
                self.hashes[step] = content_hash(runs.checkpoint(name, step))
                # Away at once: the run itself clears what looks half removed.
                shutil.rmtree(runs.checkpoint(name, step).rename(runs.folder / f"{name}-hashed"))
        assert process.wait() == 0, text
        self.losses = losses_by_step(runs, name)

    def complaints_of(self, found, told=0):
        """What is wrong with those checkpoints of a run that has told step `told` as saved."""
        if told > max(found, default=0):
            return [f"step {told} was told as saved, there is {list(found)}"]
        return [f"step {step} is not the state of the undisturbed run" for step in found
                if found[step] != self.hashes.get(step)]

    def complaints_of_losses(self, runs, name):
        """A step of the run that was never told, or told with another loss, be it the first or a second time."""
        told = losses_by_step(runs, name)
        return [f"step {step}: losses {told.get(step)}, not {loss}" for step, loss in self.losses.items()
                if told.get(step) != loss]
