#!/usr/bin/env python3
"""The peer that wmtp's speed and memory are measured against: PyTorch's own FSDP2, DDP or plain eager training.

Trains a LLaMA-MTP or Qwen3 shape with random weights and tokens: trunk, parallel heads, shared unembedding, AdamW (fused),
gradient clipping. --compile 1 compiles every block and the loss. Prints one JSON line: seconds per step, tokens/s per rank, TFLOP/s, peak memory.
  python anchor_fsdp2.py --preset small --device cpu --dtype fp32 --ac 0
  torchrun --nproc_per_node=2 anchor_fsdp2.py --wrap ddp ...
"""
import argparse
import json
import os
import resource
import statistics
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel


@dataclass
class Shape:
    dim: int
    blocks: int  # heads included
    heads: int
    kv: int
    head_dim: int
    ffn: int
    vocab: int
    n_future: int
    theta: float
    eps: float
    qk_norm: bool = False
    tied: bool = False


PRESETS = {
    "micro": Shape(128, 6, 4, 2, 32, 352, 512, 4, 1e4, 1e-5),
    "small": Shape(512, 8, 8, 8, 64, 1536, 32000, 4, 1e4, 1e-5),
    "qwen3-0.6b": Shape(1024, 28, 16, 8, 128, 3072, 151936, 1, 1e6, 1e-6, qk_norm=True, tied=True),
    "llama-mtp-7b": Shape(4096, 32, 32, 32, 128, 11008, 32000, 4, 1e4, 1e-5),
}
IGNORE = -100


def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORE)


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, s: Shape):
        super().__init__()
        self.s = s
        self.wq = nn.Linear(s.dim, s.heads * s.head_dim, bias=False)
        self.wk = nn.Linear(s.dim, s.kv * s.head_dim, bias=False)
        self.wv = nn.Linear(s.dim, s.kv * s.head_dim, bias=False)
        self.wo = nn.Linear(s.heads * s.head_dim, s.dim, bias=False)
        self.w1 = nn.Linear(s.dim, s.ffn, bias=False)
        self.w3 = nn.Linear(s.dim, s.ffn, bias=False)
        self.w2 = nn.Linear(s.ffn, s.dim, bias=False)
        self.attention_norm = nn.RMSNorm(s.dim, eps=s.eps)
        self.ffn_norm = nn.RMSNorm(s.dim, eps=s.eps)
        if s.qk_norm:
            self.q_norm = nn.RMSNorm(s.head_dim, eps=s.eps)
            self.k_norm = nn.RMSNorm(s.head_dim, eps=s.eps)

    def forward(self, x, cos, sin):
        s, (B, T, _) = self.s, x.shape
        h = self.attention_norm(x)
        q = self.wq(h).view(B, T, s.heads, s.head_dim)
        k = self.wk(h).view(B, T, s.kv, s.head_dim)
        v = self.wv(h).view(B, T, s.kv, s.head_dim)
        if s.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        o = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=s.kv != s.heads)
        x = x + self.wo(o.transpose(1, 2).reshape(B, T, -1))
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class MtpModel(nn.Module):
    """Trunk and, for n_future > 1, one extra block per predicted token; mean cross-entropy over the heads."""

    def __init__(self, s: Shape, compiled: bool):
        super().__init__()
        self.token_loss = torch.compile(token_loss) if compiled else token_loss
        num_heads = s.n_future if s.n_future > 1 else 0
        self.embedding = nn.Embedding(s.vocab, s.dim)
        self.trunk = nn.ModuleList(Block(s) for _ in range(s.blocks - num_heads))
        self.heads = nn.ModuleList(Block(s) for _ in range(num_heads))
        self.norm = nn.RMSNorm(s.dim, eps=s.eps)
        self.unembedding = nn.Linear(s.dim, s.vocab, bias=False)
        if s.tied:
            self.unembedding.weight = self.embedding.weight

    def forward(self, tokens, labels, cos, sin):
        x = self.embedding(tokens)
        for block in self.trunk:
            x = block(x, cos, sin)
        T, losses = tokens.shape[1], []
        for k, head in enumerate(self.heads if len(self.heads) else [None], 1):
            h = x if head is None else head(x, cos, sin)
            logits = self.unembedding(self.norm(h))[:, : T - k]
            losses.append(self.token_loss(logits, labels[:, k:]))
        return sum(losses) / len(losses)


def to_float8(model, recipe):
    """torchao's float8 training in all matrices of the blocks."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    config = Float8LinearConfig.from_recipe_name(recipe)
    convert_to_float8_training(model, config=config, module_filter_fn=lambda _, name: "unembedding" not in name)


def wrap(model, a, device):
    """fsdp2: every block a unit, the rest the root; ddp: one replica a rank; none: plain module."""
    if a.float8 != "off":
        to_float8(model, a.float8)
    for blocks in (model.trunk, model.heads):
        for i in range(len(blocks)):
            if a.ac:
                blocks[i] = checkpoint_wrapper(blocks[i], checkpoint_impl=CheckpointImpl.NO_REENTRANT)
            if a.compile:
                blocks[i].compile(fullgraph=True)
    if a.wrap == "fsdp2":
        bf16 = dict(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if a.dtype == "bf16" else {}
        options = dict(mesh=init_device_mesh(device.type, (dist.get_world_size(),)),
                       mp_policy=MixedPrecisionPolicy(**bf16), reshard_after_forward=bool(a.reshard))
        for block in [*model.trunk, *model.heads]:
            fully_shard(block, **options)
        fully_shard(model, **options)
    elif a.dtype == "bf16":
        raise SystemExit("--wrap ddp and none are for fp32 here")
    model.to_empty(device=device)
    for p in model.parameters():
        nn.init.normal_(p, std=0.02) if p.dim() > 1 else nn.init.ones_(p)
    return DistributedDataParallel(model, gradient_as_bucket_view=True) if a.wrap == "ddp" else model


def batch(a, s, device, generator):
    """full: every token is a target. mixed: rows of T/8..T tokens, padded; the first half of each row is prompt."""
    tokens = torch.randint(0, s.vocab, (a.batch, a.seq), device=device, generator=generator)
    labels = tokens.clone()
    count = a.batch * a.seq
    if a.rows == "mixed":
        lengths = torch.randint(a.seq // 8, a.seq + 1, (a.batch,), device=device, generator=generator)
        at = torch.arange(a.seq, device=device)[None]
        labels[(at >= lengths[:, None]) | (at < lengths[:, None] // 2)] = IGNORE
        count = int(lengths.sum())
    return tokens, labels, count


def flops_per_token(s, T):
    """Forward and backward of all matrices, attention counted causal, recomputation not counted."""
    block = s.dim * s.head_dim * (2 * s.heads + 2 * s.kv) + 3 * s.dim * s.ffn
    return 6 * (s.blocks * block + s.n_future * s.vocab * s.dim) + 6 * s.blocks * T * s.heads * s.head_dim


def resident_gib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(adapt=None):
    """adapt(model, shape, args): changes the model (still on the meta device) and returns the step's FLOP per token."""
    p = argparse.ArgumentParser()
    p.add_argument("--preset", choices=PRESETS, default="micro")
    p.add_argument("--wrap", choices=["fsdp2", "ddp", "none"], default="fsdp2")
    p.add_argument("--rows", choices=["full", "mixed"], default="full")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--backend", default=None)
    p.add_argument("--dtype", choices=["bf16", "fp32"], default="bf16")
    p.add_argument("--float8", choices=["off", "tensorwise", "rowwise"], default="off", help="torchao float8 training")
    p.add_argument("--optim", choices=["adamw", "adamw8bit"], default="adamw", help="adamw8bit: torchao's")
    for name, default in dict(batch=4, seq=512, steps=10, warm=2, ac=1, compile=0, reshard=1).items():
        p.add_argument(f"--{name}", type=int, default=default)
    if adapt:
        p.add_argument("--lora", type=int, required=True, help="rank")
    a = p.parse_args()
    s = PRESETS[a.preset]

    for key, value in dict(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511").items():
        os.environ.setdefault(key, value)
    cuda = a.device == "cuda"
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(0)
    dist.init_process_group(a.backend or ("nccl" if cuda else "gloo"))
    base_gib = resident_gib()

    torch.manual_seed(0)
    with torch.device("meta"):
        model = MtpModel(s, bool(a.compile))
    num_params = sum(q.numel() for q in model.parameters())
    flops = adapt(model, s, a) if adapt else flops_per_token(s, a.seq)
    model = wrap(model, a, device)
    trained = [q for q in model.parameters() if q.requires_grad]
    if a.optim == "adamw8bit":
        from torchao.optim import AdamW8bit
        optimizer = AdamW8bit(trained, lr=1e-5)
    else:
        optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    generator = torch.Generator(device=device).manual_seed(dist.get_rank())
    angles = torch.outer(torch.arange(a.seq, device=device).float(),
                         1.0 / s.theta ** (torch.arange(0, s.head_dim, 2, device=device).float() / s.head_dim))
    cos, sin = angles.cos(), angles.sin()

    def step():
        tokens, labels, count = batch(a, s, device, generator)
        loss = model(tokens, labels, cos, sin)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach(), count

    for _ in range(a.warm):
        loss, _ = step()
    loss.item()
    dist.barrier()
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    # On a GPU the host reads a loss when it has started the next step, and a step lasts from loss to loss, as in `wmtp bench step`.
    seconds, counts, begun, mark = [], [], [], time.perf_counter()
    for i in range(a.steps):
        begun.append(step())
        while len(begun) > (1 if cuda and i + 1 < a.steps else 0):
            loss, count = begun.pop(0)
            loss = loss.item()
            seconds.append(time.perf_counter() - mark)
            mark = time.perf_counter()
            counts.append(count)
    if cuda:  # reading the first loss waits for the second step too, and the last step is over by then
        seconds[0] = seconds[-1] = (seconds[0] + seconds[-1]) / 2
    rate = statistics.median(count / each for count, each in zip(counts, seconds))
    result = dict(
        peer=f"pytorch-{a.wrap}" + ("-peft" if adapt else ""), torch=torch.__version__, preset=a.preset,
        world=dist.get_world_size(), batch=a.batch, seq=a.seq, rows=a.rows, ac=a.ac, compile=a.compile, dtype=a.dtype,
        float8=a.float8, optim=a.optim, params=num_params,
        step_s=round(statistics.median(seconds), 4), min_s=round(min(seconds), 4), tok_s_rank=round(rate, 1),
        tflops=round(flops * rate / 1e12, 3),
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30 if cuda else resident_gib(), 3),
        reserved_gib=round(torch.cuda.max_memory_reserved() / 2**30, 3) if cuda else None,
        base_gib=None if cuda else round(base_gib, 3), loss=round(loss, 4))
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
