#!/usr/bin/env python3
"""The recipe of docs/qwen3.md on a GPU, from a bundle: python3 tests/gpu/qwen3_recipe.py BUNDLE OUT_DIR

A Qwen3-0.6B with random weights (transformers writes it), a BPE tokenizer and a text from the Python sources of this machine;
nothing is fetched. Then, in under nine minutes:
  speed   full fine-tuning at 8192 tokens: `wmtp bench step`, bench/anchor_fsdp2.py (compiled), `wmtp bench step` once more
  whole   150 steps of configs/ntp/qwen3_0_6b.yaml, saved every 50
  resume  the same, killed (SIGKILL) after step 70 and gone on with. The first step after the resume has the loss that it had before
          the kill, to the bit
  again   from the same checkpoint of `resume` twice more: how far runs from one state are apart where the attention's backward
          adds in any order. The run that was killed is as near to them, before the kill and after the resume, as they are
Results in OUT_DIR/qwen3_recipe.json, also of parts when a later one fails; exit 1 if a check failed. Sizes are flags: on a CPU
  python3 tests/gpu/qwen3_recipe.py build OUT --device cpu --layers 2 --hidden 32 --heads 2 --kv-heads 1 --head-dim 16 --ffn 64
    --vocab 512 --bpe 500 --seq 128 --preset micro --text-mb 0.2
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs/ntp/qwen3_0_6b.yaml"
NAME = "qwen3_0_6b"
BEGAN = time.monotonic()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--preset", default="qwen3-0.6b", help="shape of the speed part, known to both sides")
    parser.add_argument("--text-mb", type=float, default=12)
    parser.add_argument("--limit-s", type=int, default=540, help="parts that would begin too late are left out")
    sizes = dict(layers=28, hidden=1024, heads=16, kv_heads=8, head_dim=128, ffn=3072, vocab=151936, bpe=16000, seq=8192,
                 steps=150, save_every=50, kill_after=70, timed_steps=10)
    for name, default in sizes.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser.parse_args()


def sources():
    """Python's own, then those of the packages; folder by folder, so that nobody waits for a list of all."""
    paths = sysconfig.get_paths()
    for root in (paths["stdlib"], paths["purelib"]):
        for folder, below, files in os.walk(root):
            below.sort()
            yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))


class Recipe:
    def __init__(self, args, work):
        self.args, self.work = args, work
        self.wmtp = args.bundle.resolve() / "bin/wmtp"
        self.results, self.failures, self.seconds = {}, [], {}

    def left_s(self):
        return self.args.limit_s - (time.monotonic() - BEGAN)

    def part(self, name, function, needs_s=20):
        """Runs it and writes down what it returns; a part that fails does not end the others."""
        start = time.monotonic()
        if self.left_s() < needs_s:
            self.failures.append(f"{name}: left out, {self.left_s():.0f} s are left")
        else:
            try:
                self.results[name] = function()
            except Exception as error:
                self.failures.append(f"{name}: {error}")
        self.seconds[name] = round(time.monotonic() - start, 1)
        self.write()
        print(f"{name}: {self.seconds[name]} s", json.dumps(self.results.get(name)), flush=True)

    def expect(self, what, holds):
        if not holds:
            self.failures.append(what)

    def write(self):
        self.args.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"ok": not self.failures, "failures": self.failures, "seconds": self.seconds, **self.results}, indent=1)
        (self.args.out / "qwen3_recipe.json").write_text(text + "\n")

    def command(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=self.work, capture_output=True, text=True,
                              timeout=max(self.left_s(), 10))
        with (self.args.out / "qwen3_recipe.log").open("a") as log:
            log.write(f"$ {' '.join(map(str, words))}\n{done.stdout}{done.stderr}\n")
        if done.returncode:
            raise RuntimeError(f"{words[0]} {words[1]} ended with {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    # --- what is trained -----------------------------------------------------------------------------

    def make_text(self):
        """Sources in the order of their names, and the last of them as validation."""
        texts, size = [], 0
        for file in sources():
            if size >= self.args.text_mb * 1e6:
                break
            texts.append(file.read_text(encoding="utf-8", errors="ignore").replace("\0", ""))
            size += len(texts[-1])
        whole = "\n".join(texts)
        border = len(whole) - max(len(whole) // 20, 1)
        (self.work / "train.txt").write_text(whole[:border], encoding="utf-8")
        (self.work / "validation.txt").write_text(whole[border:], encoding="utf-8")
        return {"mb": round(len(whole) / 1e6, 2), "files": len(texts)}

    def make_tokenizer(self):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=self.args.bpe, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                      special_tokens=["<|endoftext|>", "<|im_end|>"], show_progress=False)
        text = (self.work / "train.txt").read_text(encoding="utf-8")[:4_000_000]
        tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
        folder = self.work / "model"
        folder.mkdir()
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}))
        return {"vocabulary": tokenizer.get_vocab_size()}

    def make_model(self):
        import torch
        from transformers import Qwen3Config, Qwen3ForCausalLM
        a = self.args
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.ffn, num_hidden_layers=a.layers,
            num_attention_heads=a.heads, num_key_value_heads=a.kv_heads, head_dim=a.head_dim, max_position_embeddings=40960,
            rope_theta=1000000.0, rms_norm_eps=1e-6, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1)
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(self.work / "model")
        return {"parameters": sum(p.numel() for p in model.parameters())}

    # --- speed ---------------------------------------------------------------------------------------

    def measure(self, *words):
        lines = [line for line in self.command(*words).splitlines() if '"step_s"' in line]
        return json.loads(lines[-1][lines[-1].index("{"):])

    def speed(self):
        a = self.args
        shape = ["--device", a.device, "--preset", a.preset, "--batch", 1, "--seq", a.seq, "--steps", a.timed_steps, "--warm", 3]
        ours = [self.wmtp, "bench", "step", *shape, "--recompute", "none"]
        precision = [] if a.device == "cuda" else ["--dtype", "fp32"]
        first = self.measure(*ours)
        anchor = self.measure(sys.executable, ROOT / "bench/anchor_fsdp2.py", *shape, "--ac", 0, "--compile", 1, *precision)
        runs = [first, self.measure(*ours)]
        rate = statistics.mean(run["tok_s_rank"] for run in runs)
        return {"tok_s": round(rate), "anchor_tok_s": anchor["tok_s_rank"], "speed_ratio": round(rate / anchor["tok_s_rank"], 3),
                "peak_gib": first["peak_gib"], "anchor_peak_gib": anchor["peak_gib"],
                "memory_ratio": round(first["peak_gib"] / anchor["peak_gib"], 3), "wmtp": runs, "anchor": anchor}

    # --- runs ----------------------------------------------------------------------------------------

    def train(self, name, **changed):
        a = self.args
        keys = {"models.policy.path": "model", "models.policy.name": NAME, "dataset.train": "train.txt",
                "dataset.validation": "validation.txt", "dataset.max_length": a.seq, "training.max_steps": a.steps,
                "training.log_interval": 1, "training.eval_every_steps": a.steps, "checkpoint.save_every_steps": a.save_every,
                "checkpoint.save_total_limit": 4, "checkpoint.export_on_finish": "none", "data_sampling.val_n_samples": 8,
                "runtime.threads": 0 if a.device == "cuda" else 1, **changed}
        words = [self.wmtp, "train", "--config", CONFIG, "--device", a.device, "--run-dir", self.work / name]
        return [*words, *(word for key, value in keys.items() for word in ("--override", f"{key}={value}"))]

    def points(self, name):
        """[(step, line)] of metrics.jsonl; a line that the kill has cut is left out."""
        found = []
        path = self.work / name / "metrics.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                point = json.loads(line)
            except json.JSONDecodeError:
                continue
            found.append((point["step"], point))
        return found

    def losses(self, name):
        return {step: point["train/loss"] for step, point in self.points(name) if "train/loss" in point}

    def forget(self, name):
        """The checkpoints of a run, 7 GB each, which the disk has no room for."""
        for file in sorted((self.work / name / "checkpoints").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()

    def whole(self, name="whole"):
        self.command(*self.train(name))
        self.forget(name)
        points = [point for _, point in self.points(name)]

        def values(key):
            return [point[key] for point in points if key in point]
        rates = values("perf/tokens_per_sec")[5:self.args.save_every - 1]  # past the first steps, before the first save
        peaks = values("system/gpu_memory_peak_gb")
        losses = self.losses(name)
        self.expect(f"{name}: {len(losses)} of {self.args.steps} steps have a loss", len(losses) == self.args.steps)
        return {"tok_s": round(statistics.median(rates)), "peak_gb": max(peaks) if peaks else None,
                "mfu": values("perf/mfu")[-1:], "first_loss": losses[1], "last_loss": losses[self.args.steps],
                "val_perplexity": values("val/perplexity")[-1]}

    def killed(self):
        """Starts a run and kills it once it is past the step and its first checkpoint is there; the losses it had told."""
        with (self.args.out / "killed.log").open("w") as log:
            process = subprocess.Popen([str(word) for word in self.train("resume")], cwd=self.work, stdout=log, stderr=log)
            pointer = self.work / f"resume/checkpoints/{NAME}-latest"
            while max(self.losses("resume"), default=0) < self.args.kill_after or not pointer.exists():
                if process.poll() is not None or self.left_s() < 10:
                    process.kill()
                    raise RuntimeError(f"the run was not there to be killed ({process.poll()}): see killed.log")
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        return self.losses("resume")

    def resume(self):
        before = self.killed()
        self.command(*self.train("resume"))
        starts = [json.loads(line) for line in (self.work / "resume/restarts.jsonl").read_text().splitlines()]
        # Steps that were done twice are told twice; the later line counts.
        after = {step: loss for step, loss in self.losses("resume").items() if step > starts[-1]["resumed_step"]}
        first = min(after)
        self.expect(f"resume: went on at step {first}, which no save begins", first % self.args.save_every == 1 and first > 1)
        self.expect(f"resume: step {first} had {before.get(first)}, then {after[first]}", after[first] == before.get(first))
        self.expect("resume: not all steps were done", sorted(after) == list(range(first, self.args.steps + 1)))
        self.before, self.after = before, after
        return {"killed_after": max(before), "went_on_at": first, "starts": len(starts), "steps": len(after),
                "first_step_equal": after[first] == before.get(first)}

    def again(self):
        """Runs from one state: the one that was killed, before the kill and after it, and two from its checkpoint."""
        first = min(self.after)
        runs = [self.before, self.after]
        for name in ("again1", "again2"):
            self.command(*self.train(name), "--resume", self.work / f"resume/checkpoints/{NAME}-{first - 1}steps")
            self.forget(name)
            runs.append({step: loss for step, loss in self.losses(name).items() if step >= first})
        steps = [step for step in sorted(self.before) if step >= first]

        def apart(a, b):
            return max(abs(a[step] - b[step]) / abs(a[step]) for step in steps)
        copies = apart(runs[2], runs[3])
        pairs = {"before_and_after": apart(runs[0], runs[1]), "before_and_copies": max(apart(runs[0], r) for r in runs[2:]),
                 "after_and_copies": max(apart(runs[1], r) for r in runs[2:]), "two_copies": copies}
        for pair, distance in pairs.items():
            self.expect(f"again: {pair} {distance:.2g} apart, two copies {copies:.2g}", distance <= 4 * copies)
        self.expect("again: the first losses are not equal", len({run[first] for run in runs}) == 1)
        return {"steps": len(steps), "relative": pairs}


def main():
    args = parsed()
    link = args.bundle / "link-torch.sh"
    if link.exists() and not (args.bundle / "lib/site-packages").exists():
        subprocess.run([link], check=True, stdout=subprocess.DEVNULL)
    args.out = args.out.resolve()
    with tempfile.TemporaryDirectory() as work:
        recipe = Recipe(args, Path(work))
        recipe.part("text", recipe.make_text)
        recipe.part("tokenizer", recipe.make_tokenizer)
        recipe.part("model", recipe.make_model)
        recipe.part("speed", recipe.speed, 150)
        recipe.part("whole", recipe.whole, 60)
        recipe.part("resume", recipe.resume, 90)
        recipe.part("again", recipe.again, 90)
    print("\n".join(recipe.failures) or f"ok in {time.monotonic() - BEGAN:.0f} s")
    return 1 if recipe.failures else 0


if __name__ == "__main__":
    sys.exit(main())
