"""LoRA upon a base in NF4 beside bitsandbytes and PEFT: what quantising costs a trained model, bases that bitsandbytes wrote,
adapters for PEFT, and what merging loses."""
import json
import math

import pytest
import torch
from model_cases import score
from safetensors.torch import load_file
from tolerance import near, through_a_model, within

WIDTH, MLP, BLOCKS, RANK, ALPHA = 64, 128, 3, 4, 8
BOUND = through_a_model(BLOCKS, adapters=True, width=WIDTH, mlp=MLP)
CONFIG = """
experiment: {{name: nf4, stage: baseline}}
models: {{policy: {policy}}}
dataset: {{train: {data}/train.jsonl, validation: {data}/validation.jsonl, max_length: 112}}
data_sampling: {{n_samples: 200, val_n_samples: 8}}
training: {training}
checkpoint: {{save_checkpoint_every: null, save_every_steps: {steps}, export_on_finish: {export}}}
runtime: {{device: cpu, cache_dir: {data}/cache, threads: 1}}
"""


class Runs:
    """Runs upon the demo corpus, each in a folder of its own."""

    def __init__(self, wmtp, folder):
        self.wmtp, self.folder, self.data = wmtp, folder, folder / "data"
        wmtp.run("data", "demo", "--out", self.data, "--rows", "240", "--seed", "3")

    def run(self, name, policy, training, export, ranks=1):
        """The losses that it told of its steps, and what it said."""
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(policy=json.dumps({"tokenizer_path": str(self.data), "name": "tiny", **policy}), data=self.data,
                                        training=json.dumps({"n_epochs": 1000, "batch_size": 4, **training}), steps=training["max_steps"],
                                        export=export))
        launch = ["launch", "--nproc", ranks, "--"] if ranks > 1 else []
        done = self.wmtp.run(*launch, "train", "--config", config, "--defaults", "none", "--run-dir", self.folder / name)
        points = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        return [point["train/loss"] for point in points if "train/loss" in point], done.stdout + done.stderr

    def adapters(self, name, base, quantize, steps=3, rate=3e-3, export="peft", ranks=1, **policy):
        return self.run(name, {"path": str(base), "quantize": quantize, **policy},
                        {"max_steps": steps, "learning_rate": rate, "use_lora": True, "lora": {"rank": RANK, "alpha": ALPHA, "dropout": 0.0}},
                        export, ranks)

    def checkpoint(self, name, steps=3):
        return self.folder / name / f"checkpoints/tiny-{steps}steps"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    return Runs(wmtp, tmp_path_factory.mktemp("nf4"))


@pytest.fixture(scope="module")
def trained(runs):
    """A small model in bf16 that has learned something."""
    shape = {"dim": WIDTH, "n_layers": BLOCKS, "n_heads": 4, "n_kv_heads": 2, "head_dim": 16, "ffn_dim": MLP}
    runs.run("trained", {"path": "micro-llama", "init": "random", "dtype": "bf16", "params": shape},
             {"max_steps": 60, "learning_rate": 5e-3}, "hf")
    return runs.folder / "trained/final"


@pytest.fixture(scope="module")
def rows(runs, wmtp, trained):
    """The ids of the validation rows."""
    return [line["ids"] for line in score(wmtp, trained, runs.data / "validation.jsonl") if line["type"] == "score"][:24]


@pytest.fixture(scope="module")
def data(runs, rows):
    path = runs.folder / "ids.jsonl"
    path.write_text("".join(json.dumps({"ids": row}) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def quantised(runs, bnb, trained):
    """The trained model as bitsandbytes stores it: with and without the second level, of weights in bf16 and in fp32."""
    folders = {"nested": runs.folder / "bnb-nested", "plain": runs.folder / "bnb-plain"}
    bnb.write_folder(source=trained, out=folders["nested"], dtype="bfloat16", double=True)
    bnb.write_folder(source=trained, out=folders["plain"], dtype="float32", double=False)
    return folders


def mean(nll):
    """Of the last predictions of each row: all of them tokens of its answer, which is what was learned."""
    losses = [loss for row in nll for loss in row[-16:]]
    return sum(losses) / len(losses)


def nll_of(wmtp, model, data):
    return [line["nll"][0][:-1] for line in score(wmtp, model, data) if line["type"] == "score"]


def test_quantising_costs_what_it_costs_bitsandbytes(wmtp, runs, bnb, trained, rows, data, quantised):
    """The codes of scales differ in some places, and both differ from the model itself by more than from each other."""
    runs.adapters("ours", trained, "nf4", steps=1, rate=1e-12, dtype="bf16")
    before, ours = mean(nll_of(wmtp, trained, data)), mean(nll_of(wmtp, runs.checkpoint("ours", 1), data))
    theirs = mean(bnb.nll(folder=quantised["nested"], rows=rows)["nll"])
    vocabulary = json.loads((trained / "config.json").read_text())["vocab_size"]
    print(f"NLL {before:.5f} (0.6 ln V = {0.6 * math.log(vocabulary):.5f}), in NF4 {ours - before:+.5f}, of bitsandbytes {theirs - before:+.5f}")
    assert before < 0.6 * math.log(vocabulary)
    within(abs(ours - theirs), 1e-3)
    assert abs(ours - before) > 1e-5, "nothing was quantised"


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "nested"])
def test_weights_of_bitsandbytes_are_kept_as_they_are(runs, quantised, kind, ranks):
    """Kept in 4 bits they are what reading them gives, to the last bit where they are weights in fp32; kept in bf16 they have been
    rounded once more, by 2^-9 at most."""
    names = [f"{kind}-{quantize}-{ranks}" for quantize in ("nf4", "none")]
    kept, read = (runs.adapters(name, quantised[kind], name.split("-")[1], ranks=ranks)[0] for name in names)
    assert len(kept) > 1
    if kind == "plain":
        assert kept == read
    else:
        near(kept, read, rel=2**-6)
        assert kept != read


def test_peft_takes_the_adapter_upon_the_base_of_bitsandbytes(wmtp, runs, bnb, rows, data, quantised):
    """The run's own scores, and PEFT's upon the same folder: one model in two programs."""
    base = quantised["plain"]
    runs.adapters("adapter", base, "nf4", rate=3e-2)
    theirs = bnb.nll(folder=base, rows=rows, adapter=runs.folder / "adapter/final")
    without = mean(bnb.nll(folder=base, rows=rows)["nll"])
    assert abs(mean(theirs["nll"]) - without) > 1e-2, "the adapter does nothing"
    for ours, expected in zip(nll_of(wmtp, runs.checkpoint("adapter"), data), theirs["nll"], strict=True):
        near(ours, expected, abs=BOUND * theirs["largest"])


def merged_weights(folder, adapter, base):
    """base(name) + s B A of all weights that have adapters, in fp64."""
    tensors = load_file(adapter / "adapter_model.safetensors")
    for name, a in tensors.items():
        if name.endswith("lora_A.weight"):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            b = tensors[name.replace("lora_A", "lora_B")]
            yield f"{module}.weight", base(f"{module}.weight").double() + ALPHA / RANK * b.double() @ a.double()


def test_merging_says_what_it_loses(wmtp, ask, runs, trained, quantised):
    runs.adapters("merged", trained, "nf4", rate=3e-2, dtype="bf16")
    out, original = runs.folder / "merged-hf", load_file(trained / "model.safetensors")
    result = wmtp.json("checkpoint", "export", runs.checkpoint("merged"), "--format", "hf", "--merge-lora", "--out", out)
    written = load_file(out / "model.safetensors")

    def back(name):
        """In the order of the layout: the blocks of a parameter are its own."""
        values = ask("nf4", values=original[name].double().flatten())["nested_values"]
        return torch.tensor(values, dtype=torch.float64).view(original[name].shape)
    for name, expected in merged_weights(trained, runs.folder / "merged/final", back):
        assert written[name].dtype == torch.bfloat16
        near(written[name].double(), expected, rel=2**-8, abs=2**-20, what=name)
    wanted = dict(merged_weights(trained, runs.folder / "merged/final", original.__getitem__))
    projections = [name for name in original if name.endswith("_proj.weight")]
    apart = torch.cat([(written[name].double() - wanted.get(name, original[name].double())).abs().flatten() for name in projections])
    near(result["nf4_distance"]["max"], apart.max().item(), rel=2**-16)
    near(result["nf4_distance"]["rms"], apart.square().mean().sqrt().item(), rel=2**-16)
    for name in set(original) - set(projections):
        assert torch.equal(written[name], original[name]), name


def test_the_final_export_says_so_too(runs, wmtp, trained, quantised):
    """Merged at the end of a run; a folder in NF4 alone has nothing to be compared with."""
    _, said = runs.adapters("final", trained, "nf4", export="hf", dtype="bf16")
    assert "from a base in NF4: its" in said and "from those of the unquantised base" in said, said
    runs.adapters("alone", quantised["nested"], "nf4")
    result = wmtp.json("checkpoint", "export", runs.checkpoint("alone"), "--format", "hf", "--merge-lora", "--out", runs.folder / "alone-hf")
    assert result["nf4_base"] and result["nf4_distance"] is None
