"""Every page that the program writes, made from short runs of all stages on the demo corpus."""
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STAGES = ("baseline", "critic", "verifiable", "rho1")
SHORT = ("training.max_steps=12", "training.eval_every_steps=4", "training.log_interval=1", "training.batch_size=4")
CURRICULUM = (  # and rows that are cut
    "dataset.max_length=80", "training.n_epochs=4", "training.max_steps=null", "data_sampling.balance_correct=false",
    "data_sampling.n_samples=120",
    "data_sampling.curriculum_learning=true", "data_sampling.difficulty_bins={easy: [1, 2], middle: [3, 3], hard: [4, 9]}",
    "data_sampling.curriculum_schedule=[{epoch_range: [0, 1], difficulty_weights: {easy: 1}},"
    " {epoch_range: [1, 2.5], difficulty_weights: {easy: 0.4, middle: 0.6}},"
    " {epoch_range: [2.5, 3], difficulty_weights: {middle: 0.4, hard: 0.6}}]")


def overrides(settings):
    return [word for setting in settings for word in ("--override", setting)]


def config(stage, *more):
    return ["--config", f"configs/micro/{stage}.yaml", *overrides((*SHORT, *more))]


# Page: the command that writes it, without the flag that names the file.
PAGES = {
    **{f"report-{stage}": ["report", f"runs/micro-{stage}", "--out"] for stage in STAGES},
    "report-all": ["report", *(f"runs/micro-{stage}" for stage in STAGES), "--out"],
    "inspect": ["data", "inspect", *config("baseline", *CURRICULUM), "--stats", "--sample", "4", "--html"],
    "inspect-step": ["data", "inspect", *config("critic", "dataset.packing=false", "dataset.max_length=96"), "--step", "1", "--stats",
                     "--rank", "1", "--world-size", "2", "--weights", "--html"],
    "inspect-validation": ["data", "inspect", *config("baseline"), "--split", "validation", "--html"],
    "score-baseline": ["score", *config("baseline"), "--html"],
    "score-critic": ["score", *config("critic"), "--checkpoint", "runs/micro-critic", "--values", "--html"],
    "score-verifiable": ["score", *config("verifiable"), "--checkpoint", "runs/micro-verifiable", "--values", "--weights", "--html"],
    "score-rho1": ["score", *config("rho1"), "--weights", "--step", "2", "--html"],
    "score-model": ["score", "--model", "runs/micro-baseline/final", "--data", "demo/validation.jsonl", "--html"],
    "plan": ["plan", "--model", "llama-mtp-7b", "--html"],
}


class Gallery:
    """A folder with a run of each stage, in which pages are made."""

    def __init__(self, program, folder, steps=12):
        self.program, self.folder = program, Path(folder)
        (self.folder / "configs").symlink_to(ROOT / "configs")
        self.run("data", "demo", "--out", "demo", "--rows", "400")
        for stage in STAGES:
            self.run("train", *config(stage, f"training.max_steps={steps}"))

    def run(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"wmtp {' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-3000:]}")

    def page(self, name):
        path = self.folder / f"{name}.html"
        self.run(*PAGES[name], path)
        return path
