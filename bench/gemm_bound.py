#!/usr/bin/env python3
"""The floor of a training step on this GPU: its matrix products (weight gradients into fp32) and attention alone, back to back,
long enough for the power limit to bite.

  python gemm_bound.py --preset llama-mtp-7b --batch 4 --seq 2048 [--float8 1]
One JSON line: milliseconds of the products and of attention per step, tokens/s if nothing else existed, clock and power while it ran.
"""
import argparse
import json
import subprocess
import time

import torch
import torch.nn.functional as F

from anchor_fsdp2 import PRESETS


def products(s, M):
    """(rows, out, in) of every product of a step's forward: fused qkv, o, fused gate-up, down, and the unembedding per head."""
    block = [(M, (s.heads + 2 * s.kv) * s.head_dim, s.dim), (M, s.dim, s.heads * s.head_dim), (M, 2 * s.ffn, s.dim), (M, s.dim, s.ffn)]
    return block, (M, s.vocab, s.dim)


def power():
    out = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout
    return [float(x) for x in out.strip().split(",")]


def timed(run, seconds=4.0):
    run()
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        run()
        torch.cuda.synchronize()
        count += 1
    clock = power()
    return (time.perf_counter() - start) / count * 1e3, clock


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--preset", choices=PRESETS, default="llama-mtp-7b")
    for name, default in dict(batch=4, seq=2048, float8=0).items():
        p.add_argument(f"--{name}", type=int, default=default)
    a = p.parse_args()
    s, M = PRESETS[a.preset], a.batch * a.seq
    block, head = products(s, M)
    cuda = dict(device="cuda", dtype=torch.bfloat16)
    chunk = 8192 if s.vocab < 100000 else 4096

    def pair(rows, out, width):
        return torch.randn(rows, width, **cuda), torch.randn(out, width, **cuda) * 0.02, torch.randn(rows, out, **cuda)
    shapes = [pair(*g) for g in block]
    head_shape = pair(chunk, head[1], head[2])
    one = torch.tensor(1.0, device="cuda")
    if a.float8:
        e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
        f8 = [(x.to(e4m3), w.to(e4m3), g.to(e5m2), x.t().contiguous().to(e4m3), w.t().contiguous().to(e4m3),
               g.t().contiguous().to(e5m2)) for x, w, g in shapes]

    def step_products():
        for _ in range(s.blocks):
            if a.float8:
                for x, w, g, xt, wt, gt in f8:
                    torch._scaled_mm(x, w.t(), one, one, out_dtype=torch.bfloat16)
                    torch._scaled_mm(g, wt.t(), one, one, out_dtype=torch.bfloat16)
                    torch._scaled_mm(gt, xt.t(), one, one, out_dtype=torch.bfloat16)
            else:
                for x, w, g in shapes:
                    x @ w.t()
                    g @ w
                    torch.mm(g.t(), x, out_dtype=torch.float32)
        x, w, g = head_shape
        for _ in range(s.n_future * M // chunk):
            x @ w.t()
            g @ w
            torch.mm(g.t(), x, out_dtype=torch.float32)

    q = torch.randn(a.batch, s.heads, a.seq, s.head_dim, **cuda, requires_grad=True)
    k = torch.randn(a.batch, s.kv, a.seq, s.head_dim, **cuda, requires_grad=True)
    v = torch.randn(a.batch, s.kv, a.seq, s.head_dim, **cuda, requires_grad=True)
    grad = torch.randn(a.batch, s.heads, a.seq, s.head_dim, **cuda)

    def step_attention():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            for _ in range(s.blocks):
                F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=s.kv != s.heads).backward(grad)

    mm, clock = timed(step_products)
    att, _ = timed(step_attention, 2.0)
    print(json.dumps(dict(preset=a.preset, batch=a.batch, seq=a.seq, float8=a.float8, products_ms=round(mm, 1),
                          attention_ms=round(att, 1), bound_tok_s=round(M / (mm + att) * 1e3), sm_mhz=clock[0], watts=clock[1])))


if __name__ == "__main__":
    main()
