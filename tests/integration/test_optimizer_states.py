"""training.optimizer.precision: what checkpoints hold of moments in 8 bits, that torchao reads it the same way, and what a run is
told that goes on with other moments."""
import json
import sys

import pytest
from checkpoint_readers import read_with_dcp
from kubernetes_files import extra_packages
from tiny_runs import TinyRuns, losses_by_step

torch = pytest.importorskip("torch")

WIDTH, KV, FFN = 32, 16, 48  # of tiny_runs.py
BLOCK = "model.layers.0"
# In the order of the unit's trained buffer.
MATRICES = {"self_attn.q_proj": (WIDTH, WIDTH), "self_attn.k_proj": (KV, WIDTH), "self_attn.v_proj": (KV, WIDTH),
            "self_attn.o_proj": (WIDTH, WIDTH), "mlp.gate_proj": (FFN, WIDTH), "mlp.up_proj": (FFN, WIDTH),
            "mlp.down_proj": (WIDTH, FFN)}


def moment(name, which):
    return f"optim.state.{BLOCK}.{name}.weight.{which}"


@pytest.fixture(scope="module")
def runs(wmtp, tmp_path_factory):
    """The same first step in fp32 and with 8-bit moments: from weights that bf16 holds, so both have the same gradient."""
    runs = TinyRuns(wmtp, tmp_path_factory.mktemp("states"), steps=1, every=1, lora=False)
    runs.run("base", models__policy__dtype="bf16", checkpoint__export_on_finish="hf")
    base = {"models__policy__path": str(runs.folder / "base/final"), "models__policy__init": "pretrained",
            "models__policy__params": {}}
    for precision in ("fp32", "int8"):
        runs.run(precision, training__optimizer__precision=precision, **base)
    runs.from_base = base
    return runs


@pytest.fixture(scope="module")
def states(runs):
    names = [moment(name, which) for name in MATRICES for which in ("exp_avg", "exp_avg_sq")]
    coded = [f"{name}.{part}" for name in names for part in ("codes", "scales")]
    return (read_with_dcp(runs.checkpoint("fp32", 1) / "optim", names), read_with_dcp(runs.checkpoint("int8", 1) / "optim", coded))


@pytest.fixture(scope="module")
def torchao():
    if str(extra_packages()) not in sys.path:
        sys.path.append(str(extra_packages()))
    from torchao.optim import quant_utils
    return quant_utils


def test_a_checkpoint_holds_codes_and_scales_beside_the_names(states):
    _, coded = states
    start = 0
    for name, shape in MATRICES.items():
        size = shape[0] * shape[1]
        codes, scales = (coded[moment(name, f"exp_avg.{part}")] for part in ("codes", "scales"))
        assert codes.dtype == torch.uint8 and tuple(codes.shape) == shape
        assert scales.dtype == torch.float32 and len(scales) == -(-(start + size) // 256) - start // 256
        start += size
    vectors = [name for name in coded if "layernorm" in name and name.startswith(f"optim.state.{BLOCK}.")]
    assert len(vectors) == 4 and all(coded[name].dtype == torch.bfloat16 for name in vectors)
    assert coded["optim.state.model.embed_tokens.weight.exp_avg"].dtype == torch.bfloat16
    assert moment("mlp.up_proj", "exp_avg") not in coded


@pytest.mark.parametrize("which, signed", [("exp_avg", True), ("exp_avg_sq", False)])
def test_codes_are_those_that_torchao_takes(states, torchao, which, signed):
    """All of a unit's matrices end to end, as blocks count there."""
    wide, coded = states
    numbers = torch.cat([wide[moment(name, which)].flatten() for name in MATRICES])
    codes = torch.cat([coded[moment(name, f"{which}.codes")].flatten() for name in MATRICES])
    assert len(numbers) % 256 == 0 and numbers.abs().max() > 0
    scaled, scales = torchao.scale_tensor(numbers, 256)
    qmap = torch.tensor(torchao.create_dynamic_map(signed))
    theirs = torchao.quantize_8bit_with_qmap(scaled, qmap)
    if not signed:  # ours: a positive second moment is never read as none
        theirs = torch.where((theirs == 0) & (numbers > 0), 1, theirs).to(torch.uint8)
    assert torch.equal(codes, theirs) and len(codes.unique()) > 50
    start = 0
    for name, (rows, columns) in MATRICES.items():
        end = start + rows * columns
        assert torch.equal(coded[moment(name, f"{which}.scales")], scales[start // 256:-(-end // 256)]), name
        start = end
    back = torchao.dequant_with_qmap(codes, qmap, scales)
    assert (back - numbers).abs().max() <= scales.max() * 0.9 / (128 if signed else 256)  # half of the widest step


@pytest.mark.parametrize("before, now, told", [("fp32", "int8", "saved in fp32 are kept in 8 bits"),
                                               ("int8", "bf16_moments", "saved in 8 bits are kept in bf16")])
def test_a_run_with_other_moments_says_what_became_of_them(runs, before, now, told):
    name = f"{before}-{now}"
    runs.run(name, training__optimizer__precision=before, **runs.from_base)
    done = runs.run(name, training__optimizer__precision=now, training__max_steps=3, **runs.from_base)
    assert told in done.stdout + done.stderr
    assert max(losses_by_step(runs, name)) == 3


def test_two_ranks_go_on_where_three_stopped(runs):
    same = {"training__optimizer__precision": "int8", "training__log_interval": 1, **runs.from_base}
    runs.run("resharded", ranks=3, training__max_steps=2, training__batch_size=2, **same)
    done = runs.run("resharded", ranks=2, training__max_steps=4, training__batch_size=3, **same)
    assert "are kept in" not in done.stdout + done.stderr, "codes are read as they are"
    assert sorted(losses_by_step(runs, "resharded")) == [1, 2, 3, 4]


def test_fp32_goes_on_from_split_as_from_itself(runs):
    same = {"training__log_interval": 1, **runs.from_base}
    for name, first in (("itself", "fp32"), ("from split", "split")):
        runs.run(name, training__optimizer__precision=first, training__max_steps=2, **same)
        done = runs.run(name, training__optimizer__precision="fp32", training__max_steps=4, **same)
        assert "are kept in" not in done.stdout + done.stderr
    assert losses_by_step(runs, "from split") == losses_by_step(runs, "itself")


def test_the_plan_knows_what_each_takes(wmtp):
    needed = {}
    for precision in ("fp32", "split", "bf16_moments", "bf16_sr", "int8"):
        lines = wmtp.json_lines("plan", "--no-calibrate", "--model", "small", "--batch", 1, "--gpu", "cpu", "--memory-gib", "64",
                                "--override", f"training.optimizer.precision={precision}")
        (line,) = [line for line in lines if line["type"] == "plan"]
        needed[precision] = line["memory"]["needed_bytes"]
        assert ("two moments (8 bits)" in json.dumps(line["memory"])) == (precision == "int8")
        names = [one["name"] for one in line["choices"] if one["choice"] == "precision"]
        others = {"fp32", "bf16_moments", "bf16_sr", "int8"}  # split is another name of fp32: no choice of its own
        if precision == "split":
            others = others - {"fp32"} | {"split"}
        assert sorted(names) == sorted(f"fp32, {one} states" for one in others)
    # bf16 masters of a small model need most while they are read, in fp32: only like is compared with like.
    assert needed["split"] == needed["fp32"] > needed["bf16_moments"] and needed["fp32"] > needed["bf16_sr"] > needed["int8"]
