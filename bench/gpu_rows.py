"""The rows of gpu_records.py: what is run on one GPU, beside what, and what is to come out.

Limits of time are estimates, rounded up: the rows were never timed at 2048 tokens. A measurement of ours: 20 s until LibTorch and the
plugin are read, 20 s until 6.7B weights are drawn, 13 steps of 8192 tokens at 10,000 tok/s (11,500 were recorded at 1024 tokens)
11 s; together 51 s, limit 100. A peer: as long and a minute of compilation, limit 170; with float8 or 8-bit AdamW more is compiled,
limit 220. The floor: 6 s of products and attention, as long to begin, limit 60. `wmtp train` (bench/gpu_train.py): 20 s of start,
5 s of data, 40 steps of 16,384 tokens at 60,000 tok/s 11 s, limit 100. Attention alone (bench/gpu_attention.py): 20 s of start, 5 s
for each of six kernels, limit 80. The limits of a part together stay below those of a
call (tests/tools/gpu_records_test.py): a part that is called alone is not cut short.
"""
import dataclasses


@dataclasses.dataclass
class Goal:
    """`figure` of the row's own side, alone or over that of `other` (a side, or another row's name), against `bound`."""
    figure: str
    at_least: bool
    bound: float | None         # None: the ratio is told, nothing is asked of it
    other: str = ""

    def text(self):
        what = self.figure + (f" / {self.other}'s" if self.other else "")
        return what if self.bound is None else f"{what} {'>=' if self.at_least else '<='} {self.bound:g}"


@dataclasses.dataclass
class Row:
    name: str
    part: str
    wmtp: str = ""              # flags of `wmtp bench step`
    peer: str = ""              # flags of anchor_fsdp2.py; empty: no peer
    floor: str = ""             # flags of gemm_bound.py
    goals: tuple = ()
    ranks: int = 1
    seconds: int = 100          # limit of one measurement
    peer_seconds: int = 170
    train: str = ""             # in place of `wmtp`: flags of gpu_train.py
    attention: str = ""         # or of gpu_attention.py


def speed(bound, other=""):
    return Goal("tok_s_rank", True, bound, other)


def memory(bound, other=""):
    return Goal("peak_gib", False, bound, other)


def beside(other):
    return speed(None, other), memory(None, other)


def evenly(bound):
    return Goal("forward_over_even", True, bound), Goal("backward_over_even", True, bound)


SEVEN = "--preset llama-mtp-7b --batch 4 --seq 2048"
EVERY_MATRIX = "--lora-targets q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
LORA_ON_ALL = f"--preset llama-2-7b --batch 1 --seq 2048 --lora 64 {EVERY_MATRIX} --recompute block"
QWEN = "--preset qwen3-0.6b --batch 16 --seq 2048"
SMALL = "--preset small --batch 4 --seq 256 --recompute none"
LONG = "--preset qwen3-0.6b --batch 2 --seq 8192"
STAGES = "--preset llama-mtp-7b --batch 4 --seq 1024 --recompute block"
PEER = "--ac 0 --compile 1 --steps 8 --warm 3"
OURS = "--steps 10 --warm 3"
ROWS = [
    Row("6.7B light", "seven", f"{SEVEN} --recompute light {OURS}", f"{SEVEN} {PEER}", SEVEN,
        (speed(13000), memory(0.93, "peer"))),
    Row("6.7B none", "seven", f"{SEVEN} --recompute none {OURS}", goals=(memory(1.0, "6.7B light peer"),)),
    Row("6.7B bf16_sr", "seven_sr", f"{SEVEN} --recompute light --precision bf16_sr {OURS}",
        goals=(speed(13300), memory(75))),
    Row("6.7B offload", "offload", f"{SEVEN} --recompute block --cpu-offload --steps 4 --warm 2", seconds=200,
        goals=(speed(0.6, "6.7B block"),)),
    Row("6.7B block", "offload", f"{SEVEN} --recompute block {OURS}"),
    Row("0.6B none", "qwen", f"{QWEN} --recompute none {OURS}", f"{QWEN} {PEER}", QWEN,
        (speed(112000), memory(0.74, "peer"))),
    Row("0.6B light", "qwen", f"{QWEN} --recompute light {OURS}",
        goals=(speed(0.97, "0.6B none"), memory(0.61, "0.6B none peer"))),
    Row("0.6B 2 x 8192", "qwen_long", f"{LONG} --recompute none {OURS}", f"{LONG} {PEER}", LONG, (speed(74000),)),
    Row("6.7B LoRA 64", "lora", f"{SEVEN} --lora 64 --recompute none {OURS}", goals=(speed(19300), memory(37.5))),
    Row("6.7B LoRA 64 light", "lora", f"{SEVEN} --lora 64 --recompute light {OURS}", goals=(memory(36),)),
    Row("0.6B LoRA 16", "lora", f"{QWEN} --lora 16 --recompute none {OURS}", goals=(speed(134000),)),
    # Seven matrices, one row of 2048 tokens: the base in 4 bits, and in bf16 at the same level.
    Row("6.7B LoRA 64 on NF4", "nf4", f"{LORA_ON_ALL} --quantize nf4 {OURS}",
        goals=(memory(9), speed(0.9, "6.7B LoRA 64 on bf16"))),
    Row("6.7B LoRA 64 on bf16", "nf4", f"{LORA_ON_ALL} {OURS}"),
    # The peer is torchao's float8 training under FSDP2: every Linear of the blocks, as ours.
    Row("6.7B float8", "float8", f"{SEVEN} --float8 tensorwise --recompute none {OURS}", f"{SEVEN} --float8 tensorwise {PEER}",
        f"{SEVEN} --float8 1", (speed(17000),), peer_seconds=220),
    Row("6.7B float8 light", "float8", f"{SEVEN} --float8 tensorwise --recompute light {OURS}",
        goals=(memory(102), memory(1.0, "6.7B float8 peer"), speed(None, "6.7B light"))),
    Row("6.7B rowwise", "float8_rowwise", f"{SEVEN} --float8 rowwise --recompute light {OURS}",
        f"{SEVEN} --float8 rowwise {PEER}", goals=beside("peer"), peer_seconds=220),
    Row("0.6B float8", "float8_qwen", f"{QWEN} --float8 tensorwise --recompute none {OURS}", f"{QWEN} --float8 tensorwise {PEER}",
        f"{QWEN} --float8 1", (speed(120000), *beside("0.6B none")), peer_seconds=220),
    # The peer, torchao's AdamW8bit, keeps fp32 weights: 10 bytes a parameter with the gradient where ours has 8.
    Row("6.7B int8", "int8", f"{SEVEN} --recompute light --precision int8 {OURS}", f"{SEVEN} --optim adamw8bit {PEER}",
        goals=(memory(60), speed(1.0, "6.7B light"), *beside("peer")), peer_seconds=220),
    Row("6.7B bf16_moments", "planes", f"{SEVEN} --recompute light --precision bf16_moments {OURS}", goals=beside("6.7B light")),
    # Products by algorithms that are timed in the warm-up, beside those that the library takes unasked.
    Row("6.7B light, measured products", "products", f"{SEVEN} --recompute light --gemm-choice measured {OURS}", seconds=150,
        goals=(speed(1.0, "6.7B light"),)),
    Row("0.6B none, measured products", "products", f"{QWEN} --recompute none --gemm-choice measured {OURS}", seconds=150,
        goals=(speed(1.0, "0.6B none"),)),
    # A size at which launching takes longer than computing, and its steps replayed as graphs.
    Row("small", "graphs", f"{SMALL} {OURS}"),
    Row("small, replayed", "graphs", f"{SMALL} --cuda-graphs {OURS}", goals=(speed(1.0, "small"),)),
    # Rows of 8192 tokens full of documents of many lengths. What `deterministic` costs, and cuDNN beside flash.
    Row("0.6B packed, flash", "attention", train="--attention flash"),
    Row("0.6B packed, cudnn", "attention", train="--attention cudnn", goals=beside("0.6B packed, flash")),
    Row("0.6B packed, flash, deterministic", "attention", train="--attention flash --deterministic",
        goals=beside("0.6B packed, flash")),
    # Kernels alone, beside as much attention over documents of one length.
    Row("attention, packed", "documents", attention="--documents packed", seconds=80, goals=evenly(0.9)),
    Row("attention, medium", "documents", attention="--documents medium", seconds=80, goals=evenly(0.9)),
    Row("attention, short", "documents", attention="--documents short", seconds=80, goals=evenly(None)),
    Row("attention, packed, flash", "documents", attention="--documents packed --attention flash", seconds=80, goals=evenly(None)),
    Row("6.7B on 4 ranks", "ranks", f"{SEVEN} --recompute block --backend gloo --allow-shared-gpu --steps 1 --warm 0",
        ranks=4, seconds=400, goals=(memory(30.5),)),
    Row("verifiable", "stages", f"{STAGES} --stage verifiable --beside-uniform {OURS}", seconds=150,
        goals=(Goal("over_uniform", False, 1.02),)),
    Row("rho1", "stages", f"{STAGES} --stage rho1 --beside-uniform {OURS}", seconds=150,
        goals=(Goal("over_uniform", False, 1.02),)),
    Row("4 heads", "heads", f"{STAGES} {OURS}", goals=(Goal("tflops", True, 1 / 1.08, "1 head"),)),
    Row("1 head", "heads", f"{STAGES} --heads 1 {OURS}"),
]
