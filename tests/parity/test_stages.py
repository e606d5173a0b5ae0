"""One step of every stage against PyTorch: loss, gradient of every parameter, weights and selections.

wmtp_stage_probe runs the step in fp32 with the program's own objectives; stage_reference.py has the same model and the
same formulas written once more, and autograd does the backward.
"""
import json
import random
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from stage_reference import HEAD_BLOCKS, STAGES, Model, micro_batches
from tolerance import near, within


def random_samples(seed, count=5, pairs=False, signals=False):
    draw = random.Random(seed)

    def row(i, role):
        length = draw.randint(4, 18)
        found = {"ids": [draw.randrange(64) for _ in range(length)], "role": role if pairs else 0,
                 "prompt": (0, length - 1, draw.randrange(length), draw.randrange(length))[min(i, 3)],
                 "reward": float(role == 1 if pairs else i % 2)}
        if signals:
            found |= {"value": [draw.uniform(-1, 1) for _ in range(length)], "ref_nll": [draw.uniform(2, 6) for _ in range(length)]}
        return found
    return [[row(i, 1), row(i + 1, 2)] if pairs else [row(i, 0)] for i in range(count)]


LORA = {"rank": 4, "alpha": 8.0, "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"]}
TRUNK_LORA = {"rank": 3, "alpha": 6.0, "targets": ["q_proj", "k_proj", "up_proj"], "scope": "trunk", "train_heads": True}


def verifiable(signals=False, **case):
    return {"stage": "verifiable", "samples": random_samples(5, signals=signals), **case}


def rho1(signals=False, **case):
    options = {"loss_normalization": "weights", **case.pop("options", {})}
    return {"stage": "rho1", "samples": random_samples(6, signals=signals), "options": options, **case}


GAE = {"mode": "gae", "beta": 1.0, "clip_max": 3.0}
CASES = {
    "baseline": {"stage": "baseline", "samples": random_samples(1)},
    "baseline in parts": {"stage": "baseline", "samples": random_samples(1), "batch_size": 2},
    "baseline padded": {"stage": "baseline", "samples": random_samples(1), "row_stride": 20},
    "baseline lora": {"stage": "baseline", "samples": random_samples(1), "lora": LORA},
    "baseline lora trunk": {"stage": "baseline", "samples": random_samples(1), "lora": TRUNK_LORA},
    "critic mse": {"stage": "critic", "samples": random_samples(2), "batch_size": 2},
    "critic token": {"stage": "critic", "samples": random_samples(2), "options": {"reduction": "token", "coef": 0.7}},
    "critic lambda": {"stage": "critic", "samples": random_samples(3), "batch_size": 3,
                      "options": {"type": "lambda_return", "lambda": 0.9, "gamma": 0.95, "backbone_learns": True}},
    "critic lambda mse": {"stage": "critic", "samples": random_samples(3), "lora": LORA, "value_head": "linear",
                          "options": {"type": "lambda_return", "lambda": 0.8, "loss_fn": "mse", "reduction": "token"}},
    "critic lambda huber wide": {"stage": "critic", "samples": random_samples(3),
                                 "options": {"type": "lambda_return", "lambda": 0.5, "huber_delta": 2.0}},
    "critic pairs": {"stage": "critic", "samples": random_samples(4, pairs=True), "batch_size": 2,
                     "options": {"type": "pairwise_ranking"}},
    "critic pairs trained": {"stage": "critic", "samples": random_samples(4, pairs=True), "row_stride": 24,
                             "options": {"type": "pairwise_ranking", "backbone_learns": True}},
    "critic pairs lora": {"stage": "critic", "samples": random_samples(4, pairs=True), "lora": LORA,
                          "options": {"type": "pairwise_ranking"}},
    "joint": verifiable(joint=True, batch_size=2),
    "joint stopped": verifiable(joint=True, options={"stop_gradient": True, "value_coef": 0.8, "gamma": 0.97}),
    "joint lora lambda": verifiable(joint=True, lora=LORA, row_stride=20, options={
        "value_loss": {"type": "lambda_return", "lambda": 0.9, "reduction": "token"}}),
    "joint gae batch": verifiable(joint=True, batch_size=3, options={**GAE, "whiten": "batch", "terminal": "reward"}),
    "model gae": verifiable(frozen=9, batch_size=2, options=GAE),
    "model gae batch": verifiable(frozen=9, batch_size=3, options={**GAE, "whiten": "batch"}),
    "model gae ema": verifiable(frozen=9, batch_size=2, ema=[0.2, 0.6, 12], options={**GAE, "whiten": "ema"}),
    "model gae ema weights": verifiable(frozen=9, batch_size=2, ema=[0.1, 0.7, 3], lora=TRUNK_LORA, value_head="linear",
                                        options={**GAE, "whiten": "ema", "loss_normalization": "weights"}),
    "model monte carlo": verifiable(frozen=9, options={**GAE, "terminal": "monte_carlo", "lambda": 1.0}),
    "cached td0 weights": verifiable(signals=True, batch_size=2, options={"loss_normalization": "weights"}),
    "cached td0 joint weights": verifiable(signals=True, batch_size=2, row_stride=20,
                                           options={"loss_normalization": "weights_joint", "whiten": "batch"}),
    "shuffled": verifiable(signals=True, batch_size=2, options={"control": "shuffled"}),
    "random": verifiable(batch_size=2, options={"control": "random", "mu": 0.1, "sigma": 0.4, "loss_normalization": "weights"}),
    **{f"rho1 {first} {mode} {norm}": rho1(signals=True, batch_size=3, options={
        "first_head": first, "mode": mode, "loss_normalization": norm})
       for first, mode, norm in [("always", "signed", "weights"), ("topk", "signed", "tokens"), ("topk", "absolute", "weights_joint"),
                                 ("always", "difficult", "weights_joint"), ("topk", "difficult", "weights")]},
    "rho1 live": rho1(frozen=9, batch_size=2),
    "rho1 live lora": rho1(frozen=9, lora=LORA, row_stride=20, options={"first_head": "topk", "k_percent": 0.3}),
}


@pytest.fixture(scope="session")
def stage_probe(wmtp, tmp_path_factory):
    """Runs wmtp_stage_probe on a case: its report, and its tensors by file and name."""
    binary = wmtp.binary.parent / "wmtp_stage_probe"

    def run(case):
        folder = tmp_path_factory.mktemp("stage")
        (folder / "case.json").write_text(json.dumps(case))
        done = subprocess.run([binary, folder / "case.json", folder / "out"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        tensors = {name: load_file(folder / f"out/{name}.safetensors") for name in ("weights", "frozen", "grads")
                   if (folder / f"out/{name}.safetensors").exists()}
        return json.loads((folder / "out/step.json").read_text()), tensors
    return run


def trained_names(case, weights):
    """What of the model learns, by name."""
    stage, lora, options = case["stage"], case.get("lora"), case.get("options", {})
    names = set(weights)
    if lora:
        whole = HEAD_BLOCKS if lora.get("train_heads") else ()
        return {n for n in names if ".lora_" in n or n.startswith(("value_head.", *(block + "." for block in whole)))}
    if stage == "critic" and not options.get("backbone_learns"):
        return {n for n in names if n.startswith("value_head.")}
    return names


def unpadded(values, case, index):
    """Only real tokens of a micro-batch's flat values."""
    stride = case.get("row_stride", 0)
    if not stride or values is None:
        return values
    return [v for b, row in enumerate(micro_batches(case)[index]) for v in values[b * stride:b * stride + len(row["ids"])]]


@pytest.mark.parametrize("name", CASES)
def test_step(stage_probe, name):
    case = CASES[name]
    found, tensors = stage_probe(case)
    names = trained_names(case, tensors["weights"])
    assert set(tensors["grads"]) == names
    weights = {n: w.double().requires_grad_(n in names) for n, w in tensors["weights"].items()}
    lora = case.get("lora")
    model = Model(weights, lora["alpha"] / lora["rank"] if lora else 0.0)
    frozen = Model({n: w.double() for n, w in tensors["frozen"].items()}) if "frozen" in tensors else None
    for index, view in enumerate(found["views"]):
        for key in ("weight", "value"):
            view[key] = unpadded(view[key], case, index)
        view["selected"] = [unpadded(head, case, index) for head in view["selected"]]
    expected = STAGES[case["stage"]](case, model, frozen, found)

    assert found["applied"] and not found["bad"]
    near(found["loss"], expected.loss.item(), rel=1e-5)
    for key, value in expected.metrics.items():
        near(found["metrics"][key], value, rel=1e-4, abs=1e-5, what=key)
    if expected.ema:
        near(found["ema"], expected.ema, rel=1e-4, abs=1e-6)
    for index, view in enumerate(found["views"]):
        if expected.weights:
            near(view["weight"], expected.weights[index], rel=1e-4)
        if expected.values:
            near(view["value"], expected.values[index].tolist(), rel=1e-4, abs=1e-5)
        assert view["selected"] == (expected.selected[index] if expected.selected else [])
    check_gradients(case, tensors["grads"], weights, expected.loss)


def check_gradients(case, found, weights, loss):
    loss.backward()
    pairs = case.get("options", {}).get("type") == "pairwise_ranking"
    squares = 0.0
    for name, grad in found.items():
        if pairs and name.startswith("value_head.") and name.endswith(("mlp.6.bias", "linear.bias")):
            assert torch.count_nonzero(grad) == 0  # pairs say nothing about the level
            continue
        expected = weights[name].grad
        expected = torch.zeros_like(weights[name]) if expected is None else expected
        squares += expected.pow(2).sum().item()
        within((grad.double() - expected).norm(), 1e-5 * expected.norm() + 1e-12, name)
    assert squares > 1e-6


def test_values_that_no_formula_reads_may_be_nan(stage_probe):
    case = verifiable(signals=True, batch_size=2, options=GAE)
    whole, tensors = stage_probe(case)
    for [row] in case["samples"]:
        row["value"][:max(0, row["prompt"] - 1)] = [None] * max(0, row["prompt"] - 1)
    assert any(None in row["value"] for [row] in case["samples"])
    found, holes = stage_probe(case)
    assert found["applied"] and found["loss"] == whole["loss"] and found["metrics"] == whole["metrics"]
    assert all(torch.equal(grad, holes["grads"][name]) for name, grad in tensors["grads"].items())
    row = case["samples"][2][0]
    row["value"][-1] = None
    found, _ = stage_probe(case)
    assert found["bad"] and not found["applied"] and found["ema"] == [0, 1, 0]
