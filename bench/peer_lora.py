#!/usr/bin/env python3
"""The peer of `wmtp bench step --lora R`: anchor_fsdp2.py's model with PEFT's adapters on the attention projections.

Rank R, alpha 2R, no dropout; the base is frozen. Flags and output are anchor_fsdp2.py's.
  python peer_lora.py --preset small --lora 8 --wrap none --device cpu --dtype fp32 --ac 0
"""
from peft import LoraConfig, get_peft_model

import anchor_fsdp2


def lora_flops_per_token(s, T, num_lora):
    """Frozen matrices cost their forward and the input's gradient; attention all three; adapters all three."""
    block = s.dim * s.head_dim * (2 * s.heads + 2 * s.kv) + 3 * s.dim * s.ffn
    linear = 2 * (s.blocks * block + s.n_future * s.vocab * s.dim)
    return 2 * linear + 3 * 2 * s.blocks * T * s.heads * s.head_dim + 6 * num_lora


def adapt(model, s, a):
    # PEFT puts its layers into `model` itself; the object it returns is a wrapper we have no use for.
    get_peft_model(model, LoraConfig(r=a.lora, lora_alpha=2 * a.lora, target_modules=["wq", "wk", "wv", "wo"]),
                   low_cpu_mem_usage=True)
    num_lora = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return lora_flops_per_token(s, a.seq, num_lora)


if __name__ == "__main__":
    anchor_fsdp2.main(adapt)
