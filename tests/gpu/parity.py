#!/usr/bin/env python3
"""bf16 on a GPU against PyTorch: loss and gradients of one step from the same weights and tokens.

  python tests/gpu/parity.py BUNDLE OUT
Runs BUNDLE/bin/wmtp_model_probe, rebuilds the model in PyTorch (transformers' Qwen3; the MTP model of bench/anchor_fsdp2.py) with
the weights it wrote, and holds loss (2e-3 relative) and the gradient's cosine (0.999, per tensor and overall) against it.
"""
import json
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import anchor_fsdp2 as peer


def run_probe(bundle, out, **flags):
    words = [str(bundle / "bin/wmtp_model_probe"), "--device", "cuda", "--dtype", "bf16", "--out", str(out)]
    for name, value in flags.items():
        words += [f"--{name}", str(value)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return json.loads((out / "probe.json").read_text())


def mtp_names(shape):
    """peer's parameter names -> wmtp's."""
    block = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj",
             "w1": "mlp.gate_proj", "w3": "mlp.up_proj", "w2": "mlp.down_proj",
             "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    names = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight",
             "unembedding.weight": "lm_head.weight"}
    trunk = shape.blocks - shape.n_future
    for i in range(trunk):
        names |= {f"trunk.{i}.{a}.weight": f"model.layers.{i}.{b}.weight" for a, b in block.items()}
    for k in range(shape.n_future):
        prefix = f"model.layers.{trunk}" if k == 0 else f"model.extra_heads.{k - 1}"
        names |= {f"heads.{k}.{a}.weight": f"{prefix}.{b}.weight" for a, b in block.items()}
    return names


def torch_mtp(weights, tokens, blocks, heads, dtype):
    shape = peer.Shape(4096, blocks, 32, 32, 128, 11008, 32000, heads, 1e4, 1e-5)
    with torch.device("meta"):
        model = peer.MtpModel(shape, False)
    model.to_empty(device="cuda").to(dtype)
    names = mtp_names(shape)
    model.load_state_dict({a: weights[b].to(dtype) for a, b in names.items()})
    angles = torch.outer(torch.arange(tokens.shape[1], device="cuda").float(),
                         1.0 / shape.theta ** (torch.arange(0, shape.head_dim, 2, device="cuda").float() / shape.head_dim))
    loss = model(tokens, tokens, angles.cos(), angles.sin())
    loss.backward()
    return loss.item(), {names[n]: p.grad.float().cpu() for n, p in model.named_parameters()}


def torch_qwen3(weights, tokens, dtype):
    from transformers import Qwen3Config, Qwen3ForCausalLM
    config = Qwen3Config(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
                         num_attention_heads=16, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960,
                         rope_theta=1e6, tie_word_embeddings=True, rms_norm_eps=1e-6)
    model = Qwen3ForCausalLM(config).to(dtype).cuda()
    missing, unexpected = model.load_state_dict({n: w.to(dtype) for n, w in weights.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    logits = model(tokens).logits.float()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return loss.item(), {n: p.grad.float().cpu() for n, p in model.named_parameters() if p.grad is not None}


def compare(name, ours, grads, theirs):
    loss, reference = theirs
    relative = abs(ours["loss"] - loss) / loss
    dot = a2 = b2 = 0.0
    worst, worst_name = 1.0, ""
    for key, value in reference.items():
        x, y = grads[key].double().flatten(), value.double().flatten()
        xy, xx, yy = (x @ y).item(), (x @ x).item(), (y @ y).item()
        dot, a2, b2 = dot + xy, a2 + xx, b2 + yy
        cosine = xy / (xx * yy) ** 0.5
        if cosine < worst:
            worst, worst_name = cosine, key
    overall = dot / (a2 * b2) ** 0.5
    good = relative <= 2e-3 and overall >= 0.999
    print(json.dumps(dict(case=name, ok=good, loss=ours["loss"], torch_loss=loss, relative=relative, cosine=overall,
                          worst_cosine=worst, worst_tensor=worst_name)), flush=True)
    return good


def main():
    bundle, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    good = True
    for blocks, heads in ((4, 2), (6, 4)):
        where = out / f"mtp{heads}"
        ours = run_probe(bundle, where, preset="llama-mtp-7b", blocks=blocks, heads=heads, batch=2, seq=512)
        weights, grads = load_file(where / "weights.safetensors", device="cuda"), load_file(where / "grads.safetensors")
        tokens = torch.tensor(ours["tokens"], device="cuda")
        for dtype in (torch.bfloat16, torch.float32):
            good &= compare(f"llama-mtp-7b blocks {blocks} heads {heads} vs torch {dtype}", ours, grads,
                            torch_mtp(weights, tokens, blocks, heads, dtype))
            torch.cuda.empty_cache()
    where = out / "qwen3"
    ours = run_probe(bundle, where, preset="qwen3-0.6b", batch=2, seq=512)
    weights, grads = load_file(where / "weights.safetensors", device="cuda"), load_file(where / "grads.safetensors")
    tokens = torch.tensor(ours["tokens"], device="cuda")
    for dtype in (torch.bfloat16, torch.float32):
        good &= compare(f"qwen3-0.6b vs torch {dtype}", ours, grads, torch_qwen3(weights, tokens, dtype))
        torch.cuda.empty_cache()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    main()
