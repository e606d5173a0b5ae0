"""Whole runs with --device cuda, on a GPU that is emulated (tests/emulated_gpu): the program's own path for GPUs with its own
kernels, against the same runs on the CPU. Memory is counted as a GPU's allocator counts it, so the plan is held to it closely.

Bounds, over the CPU's number, are those of tests/gpu/shapes.sh: a bf16 number errs by 2^-9; losses average over targets."""
import copy
import json

import pytest
from tiny_runs import TinyRuns, error_of, losses_by_step, state_hash

BF16 = 4 * 2**-9
FP32 = 1e-4
MIB = 2**20
LIBRARIES = 32 * MIB  # cuBLAS has none of it here
SHORT = ("training.max_steps=2", "training.batch_size=2", "training.log_interval=1", "training.eval_at_start=false",
         "training.eval_every_steps=1000", "data_sampling.val_n_samples=2", "training.learning_rate=1e-4",
         "checkpoint.export_on_finish=none")
GPU = {"runtime__device": "cuda", "training__lr_scheduler__type": "constant", "training__log_interval": 1,
       "training__eval_every_steps": 1000, "data_sampling__val_n_samples": 1}


@pytest.fixture(scope="session")
def gpu(wmtp):
    binary = wmtp.binary.parents[1] / "emulated/bin/wmtp"
    assert binary.exists(), "the tests' build makes it"
    return type(wmtp)(binary)


@pytest.fixture(scope="module")
def runs(gpu, tmp_path_factory):
    return TinyRuns(gpu, tmp_path_factory.mktemp("emulated"), steps=4, every=2)


def test_the_device_says_what_it_is(gpu):
    assert "emulated" in gpu.run("doctor", check=False).stdout


@pytest.mark.parametrize("stage", ["baseline", "critic", "verifiable", "rho1"])
def test_every_stage_computes_what_the_cpu_computes(workshop, gpu, stage):
    """Gradients are compared before the first update: a critic's are pairs that cancel but for a thousandth, and Adam makes
    steps of full size of their roundings."""
    there = copy.copy(workshop)
    there.wmtp = gpu
    here = workshop.train(f"micro/{stage}.yaml", f"emulated-cpu-{stage}", *SHORT)
    for dtype, bound in [("bf16", BF16), ("fp32", FP32)]:
        frozen = ["models.value_model.dtype=fp32"] if (stage, dtype) == ("verifiable", "fp32") else []
        run = there.train(f"micro/{stage}.yaml", f"emulated-{dtype}-{stage}", *SHORT, *frozen, "runtime.device=cuda",
                          f"distributed.fsdp.param_dtype={dtype}")
        first = 1 if stage == "verifiable" and dtype == "bf16" else 2  # TD errors of a thousandth weigh the second batch
        assert run.values("train/loss")[:first] == pytest.approx(here.values("train/loss")[:first], rel=bound)
        if dtype == "fp32":
            assert run.values("train/grad_norm_pre_clip")[0] == pytest.approx(here.values("train/grad_norm_pre_clip")[0], rel=1e-3)


MEMORY = [
    "--preset micro --batch 2 --seq 64",
    "--preset micro --batch 2 --seq 64 --accumulation 2",
    "--preset micro --batch 2 --seq 64 --strategy NO_SHARD",
    "--preset micro --batch 2 --seq 64 --precision bf16_sr",
    "--preset micro-qwen3 --batch 2 --seq 128 --recompute light",
    "--preset micro-qwen3 --batch 2 --seq 128 --recompute block",
    "--preset micro-qwen3 --batch 2 --seq 64 --lora 8",
    "--preset micro --batch 2 --seq 64 --cpu-offload",
    "--preset micro --batch 2 --seq 64 --stage rho1 --signals model",
    "--preset micro --batch 2 --seq 64 --stage verifiable --signals model",
    "--preset micro-qwen3 --batch 2 --seq 64 --lora 8 --quantize nf4",
    "--preset micro-qwen3 --batch 2 --seq 64 --lora 8 --quantize nf4 --cpu-offload",
    "--preset micro --batch 2 --seq 64 --precision bf16_moments",
    "--preset micro --batch 2 --seq 64 --precision int8",
    "--preset micro --batch 2 --seq 128 --float8 tensorwise",
    "--preset micro --batch 2 --seq 64 --float8 tensorwise --strategy NO_SHARD",
    "--preset micro-qwen3 --batch 2 --seq 128 --float8 rowwise --recompute light",
    "--preset micro-qwen3 --batch 2 --seq 128 --float8 tensorwise --recompute block",
    "--preset micro-qwen3 --batch 2 --seq 64 --float8 tensorwise --lora 8 --quantize nf4",
]


@pytest.mark.parametrize("flags", MEMORY)
def test_the_plan_is_the_peak(gpu, flags):
    """The law of the plan is 5 %; here nothing but rounding to 512 bytes stands between the two, and what the plan leaves out:
    scalars, and where a model is small, the few rows of its batch."""
    done = gpu.json("bench", "step", "--device", "cuda", "--steps", 2, "--warm", 1, *flags.split(), env={"OMP_NUM_THREADS": "1"})
    peak, planned = done["peak_gib"] * 2**30, done["plan_gib"] * 2**30 - LIBRARIES
    assert planned == pytest.approx(peak, rel=0.02), f"peak {peak / MIB:.2f}, planned {planned / MIB:.2f} MiB"


def test_gradients_stand_for_several_micro_batches_only(gpu):
    """With one, what the trunk's blocks have as gradients is not there yet when the activations are most."""
    flags = ["--device", "cuda", "--steps", 2, "--warm", 1, "--preset", "micro", "--batch", 2, "--seq", 128]
    one, two = (gpu.json("bench", "step", *flags, "--accumulation", n, env={"OMP_NUM_THREADS": "1"}) for n in (1, 2))
    assert one["state_gib"] == two["state_gib"]
    assert one["peak_gib"] < 0.95 * two["peak_gib"]


FIXED = {**GPU, "runtime__deterministic": True, "runtime__threads": 1}


def test_deterministic_runs_have_the_same_bits_at_any_level_and_resumed(runs):
    """The emulated attention adds in an order that is drawn, as the real kernels may, unless it is asked not to."""
    runs.run("whole", distributed__fsdp__activation_checkpointing="none", **FIXED)
    runs.run("cut", "--max-steps", "2", distributed__fsdp__activation_checkpointing="light", **FIXED)
    runs.run("cut", distributed__fsdp__activation_checkpointing="block", **FIXED)
    assert losses_by_step(runs, "cut") == losses_by_step(runs, "whole")
    assert state_hash(runs.checkpoint("cut", 4)) == state_hash(runs.checkpoint("whole", 4))
    runs.run("free", **{**FIXED, "runtime__deterministic": False})
    assert state_hash(runs.checkpoint("free", 4)) != state_hash(runs.checkpoint("whole", 4))


@pytest.mark.parametrize("name, ranks, changes", [
    ("one", 1, {}),
    ("several-micro-batches", 1, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1}),
    ("at-once", 1, {"training__gradient_accumulation_steps": 2, "training__batch_size": 1, "distributed__fsdp__no_sync": True}),
    ("sharded", 2, {"distributed__fsdp__sharding_strategy": "FULL_SHARD"}),
    ("replicated", 2, {"distributed__fsdp__sharding_strategy": "NO_SHARD"}),
    ("replicas", 4, {"distributed__fsdp__sharding_strategy": "HYBRID_SHARD", "distributed__fsdp__shard_group_size": 2}),
])
def test_offloaded_runs_learn_what_others_learn(runs, name, ranks, changes):
    """The same weights in bf16 come from host memory, as the upper planes of their masters: the first loss has the same bits. Then
    AdamW runs on the CPU, whose last bits are its own: few of the weights then round to another bf16 number."""
    settings = {**FIXED, "training__max_steps": 3, "training__use_lora": False, **changes}
    for offload in False, True:
        runs.run(f"offload-{name}-{offload}", ranks=ranks, distributed__fsdp__cpu_offload=offload, **settings)
    here, there = (losses_by_step(runs, f"offload-{name}-{offload}") for offload in (False, True))
    assert here.keys() == there.keys() and len(here) == 3
    assert here[1] == there[1]
    for step, values in here.items():
        assert there[step].pop() == pytest.approx(values.copy().pop(), rel=FP32)


def test_attention_is_the_one_that_was_asked_for(runs):
    runs.run("flash", runtime__attention="flash", training__max_steps=1, **GPU)
    for kernel, dtype, why in [("flash", "fp32", "the model computes in fp32"), ("reference", "bf16", "it has a CPU body only")]:
        done = runs.run("refused", code=78, runtime__attention=kernel, distributed__fsdp__param_dtype=dtype, **GPU)
        assert f"runtime.attention: {kernel} on a GPU, but {why}" in error_of(done)


def test_cudnn_over_packed_rows_learns_what_flash_learns(runs):
    """The slots that cuDNN fills in a real plugin have its demands here. Losses of bf16 differ by its roundings."""
    for kernel in "flash", "cudnn":
        done = runs.run(f"by-{kernel}", runtime__attention=kernel, training__max_steps=3, **GPU)
        told = "runtime.attention: cudnn has never run on a GPU" in done.stdout + done.stderr
        assert told == (kernel == "cudnn")
    flash, cudnn = losses_by_step(runs, "by-flash"), losses_by_step(runs, "by-cudnn")
    assert flash.keys() == cudnn.keys() and len(flash) == 3
    for step, values in flash.items():
        assert cudnn[step].pop() == pytest.approx(values.copy().pop(), rel=BF16)


def test_deterministic_cudnn_has_the_same_bits_resumed_or_is_refused(runs):
    runs.run("cudnn-whole", runtime__attention="cudnn", **FIXED)
    runs.run("cudnn-cut", "--max-steps", "2", runtime__attention="cudnn", **FIXED)
    runs.run("cudnn-cut", runtime__attention="cudnn", **FIXED)
    assert state_hash(runs.checkpoint("cudnn-cut", 4)) == state_hash(runs.checkpoint("cudnn-whole", 4))
    done = runs.run("cudnn-refused", code=78, runtime__attention="cudnn", training__batch_size=20000, **FIXED)
    assert "with runtime.deterministic it stores 2.0 GiB for 32768 documents of 128 tokens, more than 1" in error_of(done)


WIDE = {**GPU, "training__use_lora": False, "runtime__gemm_choice": "measured",
        "models__policy__params": {"dim": 64, "n_layers": 5, "n_heads": 2, "n_kv_heads": 1, "head_dim": 32, "ffn_dim": 128}}


def test_measured_products_learn_what_the_librarys_learn(runs):
    runs.run("by-library", **{**WIDE, "runtime__gemm_choice": "library"})
    done = runs.run("measured", **WIDE)
    assert "runtime.gemm_choice: measured has never run on a GPU" in done.stdout + done.stderr
    choices = json.loads((runs.folder / "measured/gemm_choices.json").read_text())
    assert choices["gpu"] == "emulated GPU" and choices["library"] == "emulated products 1"
    assert len(choices["products"]) > 10  # forward, to inputs, to weights
    library, measured = losses_by_step(runs, "by-library"), losses_by_step(runs, "measured")
    assert library.keys() == measured.keys() and len(library) == 4
    for step, values in library.items():
        assert measured[step].pop() == pytest.approx(values.copy().pop(), rel=BF16)


def test_measured_products_are_those_of_the_folder(runs):
    """What a run goes on with is not timed again; of another GPU or library it is. A file that is none is told of."""
    file = runs.folder / "goes-on/gemm_choices.json"
    runs.run("goes-on", "--max-steps", "2", **WIDE)
    before = json.loads(file.read_text())
    other = dict.fromkeys(before["products"], f"{2:016x}" + 7 * f"{5:016x}")  # nobody measures the fives
    file.write_text(json.dumps({**before, "products": other}))
    runs.run("goes-on", "--max-steps", "3", **WIDE)
    after = json.loads(file.read_text())["products"]
    assert other.items() <= after.items()
    file.write_text(json.dumps({**before, "library": "cublasLt 1", "products": other}))
    done = runs.run("goes-on", **WIDE)
    assert "is of emulated GPU and cublasLt 1, here are emulated GPU and emulated products 1" in done.stdout + done.stderr
    assert not other.items() & json.loads(file.read_text())["products"].items()
    file.write_text(json.dumps({**before, "products": {"bf16": "12"}}))
    done = runs.run("goes-on", "--max-steps", "5", code=65, **WIDE)
    assert "the algorithm of \"bf16\" is neither library nor 128 hexadecimal digits" in error_of(done)


def test_products_in_fp32_are_not_measured(runs):
    done = runs.run("wide", code=78, **{**WIDE, "distributed__fsdp__param_dtype": "fp32"})
    assert "runtime.gemm_choice: measured with compute in fp32" in error_of(done)


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_two_ranks_are_one(runs, strategy):
    """A GPU each; their sums are grouped otherwise, which the CPU's own law of ranks allows for too."""
    wide = {**GPU, "training__use_lora": False, "training__max_steps": 2, "distributed__fsdp__param_dtype": "fp32"}
    if not (runs.folder / "one").exists():
        runs.run("one", training__gradient_accumulation_steps=2, **wide)
    runs.run(f"two-{strategy}", ranks=2, distributed__fsdp__sharding_strategy=strategy, **wide)
    one, two = losses_by_step(runs, "one"), losses_by_step(runs, f"two-{strategy}")
    assert one.keys() == two.keys() and len(one) == 2
    for step, losses in one.items():
        assert two[step].pop() == pytest.approx(losses.copy().pop(), rel=1e-5)


@pytest.fixture(scope="module")
def upon_nf4(runs):
    """Settings of a run upon a base on disk in 4 bits, and the losses of one on the CPU."""
    runs.run("base", training__use_lora=False, training__max_steps=2, checkpoint__export_on_finish="hf")
    settings = {**GPU, "models__policy__quantize": "nf4", "models__policy__path": str(runs.folder / "base/final"),
                "models__policy__init": "pretrained", "models__policy__params": {}, "training__max_steps": 2}
    runs.run("nf4-cpu", **{**settings, "runtime__device": "cpu"})
    return settings, losses_by_step(runs, "nf4-cpu")


@pytest.mark.parametrize("name, changes, bound", [
    ("bf16", {}, BF16),
    ("fp32", {"distributed__fsdp__param_dtype": "fp32"}, FP32),
    ("offloaded", {"distributed__fsdp__param_dtype": "fp32", "distributed__fsdp__cpu_offload": True}, FP32),
    ("merged", {"checkpoint__export_on_finish": "hf"}, BF16),
])
def test_adapters_upon_nf4_learn_what_they_learn_on_the_cpu(runs, upon_nf4, name, changes, bound):
    settings, wanted = upon_nf4
    done = runs.run(f"nf4-{name}", **{**settings, **changes})
    assert "NF4 has never run on a GPU" in done.stdout + done.stderr
    losses = losses_by_step(runs, f"nf4-{name}")
    assert losses.keys() == wanted.keys() and len(wanted) == 2
    for step, values in wanted.items():
        assert losses[step].pop() == pytest.approx(values.copy().pop(), rel=bound)


def test_a_reference_in_nf4_scores_as_on_the_cpu(runs, upon_nf4):
    settings = {**upon_nf4[0], "experiment__stage": "rho1", "models__reference__quantize": "nf4", "models__policy__quantize": "none",
                "models__reference__path": upon_nf4[0]["models__policy__path"], "models__reference__dtype": "fp32",
                "distributed__fsdp__param_dtype": "fp32", "training__max_steps": 1}
    for device in ("cpu", "cuda"):
        runs.run(f"rho1-{device}", **{**settings, "runtime__device": device})
    there, here = losses_by_step(runs, "rho1-cuda"), losses_by_step(runs, "rho1-cpu")
    assert there[1].pop() == pytest.approx(here[1].pop(), rel=FP32)


@pytest.mark.parametrize("precision", ["bf16_moments", "int8"])
def test_optimizer_states_of_fewer_bits_learn_what_they_learn_on_the_cpu(runs, precision):
    """The first step's losses are those of the same weights; the second's those of an update, whose roundings differ."""
    settings = {**GPU, "training__optimizer__precision": precision, "training__use_lora": False, "training__max_steps": 2,
                "distributed__fsdp__param_dtype": "fp32"}
    for device in ("cpu", "cuda"):
        done = runs.run(f"{precision}-{device}", **{**settings, "runtime__device": device})
        told = f"training.optimizer.precision: {precision} has never run on a GPU" in done.stdout + done.stderr
        assert told == (device == "cuda")
    there, here = losses_by_step(runs, f"{precision}-cuda"), losses_by_step(runs, f"{precision}-cpu")
    for step, bound in ((1, FP32), (2, BF16)):
        assert there[step].pop() == pytest.approx(here[step].pop(), rel=bound)
