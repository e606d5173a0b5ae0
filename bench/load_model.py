"""How fast and in how much memory a model folder loads: wmtp against safetensors.torch.load_file.

    python bench/load_model.py [--gb 2] [--dir DIR] [--wmtp build/bin/wmtp]

Both sides read the same files, warm in the page cache, into memory of their own, each in a fresh process;
the best of three counts. One JSON line per side: seconds, GB/s, peak resident MiB (anonymous: without file pages).
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PEER = """
import sys, time, json, resource
from safetensors.torch import load_file
def anonymous_mib():
    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('RssAnon')) / 1024
before = anonymous_mib()
start = time.perf_counter()
tensors = {}
for path in sys.argv[1:]:
    for name, tensor in load_file(path).items():
        tensors[name] = tensor.clone()
print(json.dumps({'seconds': time.perf_counter() - start, 'anon_mib': anonymous_mib() - before,
                  'peak_mib': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def make_folder(folder, gigabytes):
    import torch
    from safetensors.torch import save_file
    folder.mkdir(parents=True, exist_ok=True)
    d, f, vocab = 2048, 5632, 32000
    block = 4 * d * d + 3 * d * f + 2 * d
    layers = max(1, int((gigabytes * 1e9 / 2 - 2 * vocab * d) / block))
    state = {"model.embed_tokens.weight": torch.randn(vocab, d).bfloat16(), "model.norm.weight": torch.ones(d).bfloat16(),
             "lm_head.weight": torch.randn(vocab, d).bfloat16()}
    for i in range(layers):
        for part, shape in (("self_attn.q_proj", (d, d)), ("self_attn.k_proj", (d, d)), ("self_attn.v_proj", (d, d)),
                            ("self_attn.o_proj", (d, d)), ("mlp.gate_proj", (f, d)), ("mlp.up_proj", (f, d)),
                            ("mlp.down_proj", (d, f)), ("input_layernorm", (d,)), ("post_attention_layernorm", (d,))):
            state[f"model.layers.{i}.{part}.weight"] = torch.randn(shape).bfloat16()
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": vocab, "hidden_size": d, "intermediate_size": f, "num_hidden_layers": layers,
        "num_attention_heads": 16, "num_key_value_heads": 16}))


def best(command, runs=3):
    results = [json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
               for _ in range(runs)]
    return min(results, key=lambda result: result["seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=2)
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()) / "wmtp-bench-load")
    parser.add_argument("--wmtp", default="build/bin/wmtp")
    args = parser.parse_args()
    folder = args.dir / f"{args.gb}gb"
    if not (folder / "config.json").exists():
        make_folder(folder, args.gb)
    file = folder / "model.safetensors"
    size = file.stat().st_size
    with open(file, "rb") as handle:  # both sides find the pages warm
        while handle.read(1 << 24):
            pass
    for side, command in (("safetensors", [sys.executable, "-c", PEER, str(file)]),
                          ("wmtp", [args.wmtp, "--json", "bench", "load", str(folder)])):
        result = best(command)
        print(json.dumps({"side": side, "bytes": size, "seconds": round(result["seconds"], 3),
                          "gb_s": round(size / result["seconds"] / 1e9, 2), "anon_mib": round(result["anon_mib"]),
                          "peak_mib": round(result["peak_mib"])}))


if __name__ == "__main__":
    main()
